"""No transaction does much of a workflow, however many of its steps end or may begin at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from tests.db.control import Connection, call, claim, claim_both, fail
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def test_what_many_ends_lead_to_is_left_to_more_than_one_statement(
    flow: Stage, connection: Connection
) -> None:
    """The end of runs counts 1,000 ends of steps at most, a pass over what is left 2,000."""
    above = [f"a{n}" for n in range(12)]
    run = await flow.run(
        *(step(name, handler="py:a") for name in above),
        *(step(f"b{n}", *above, handler="py:b") for n in range(400)),
    )
    rows = await claim(connection, flow.node, 12)
    names = {row["id"]: "a" for row in rows}
    left = "SELECT count(*) FROM pgcron.step_outbox WHERE parent IS NOT NULL"

    await flow.end(rows, names, {"a": None})
    assert await connection.fetchval(left) == 10
    assert await connection.fetchval(f"SELECT pgcron.advance_workflow({run})") is True
    assert await connection.fetchval(left) == 5

    await flow.work()
    assert len(flow.began) == 400
    assert await flow.state(run) == "succeeded"


async def test_ends_that_count_for_no_other_step_are_all_done_at_once(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(*(step(f"s{n}", handler="py:b") for n in range(20)))
    await connection.execute(
        "SELECT pgcron.cancel_run(id) FROM pgcron.run WHERE origin = 'step' ORDER BY id"
    )
    left = "SELECT count(*) FROM pgcron.step_outbox WHERE run IS NOT NULL"
    assert await connection.fetchval(left) == 20

    await connection.execute(f"SELECT pgcron.advance_workflow({run})")

    assert await connection.fetchval(left) == 0
    await flow.work()


@pytest.mark.parametrize("keys", [{}, {"after": "s0", "rule": "one_failed"}])
async def test_the_rules_of_a_definition_read_each_step_a_few_times(
    flow: Stage, connection: Connection, keys: dict[str, str]
) -> None:
    await connection.execute("SET track_functions = 'all'")
    async with connection.transaction():
        await flow.put("w", step("s0"), *(step(f"s{n}", **keys) for n in range(1, 300)))
        read = await connection.fetchval(
            "SELECT pg_stat_get_xact_function_calls('pgcron.step_names(jsonb)'::regprocedure)"
        )

    assert 300 <= read <= 5 * 300


async def test_steps_that_wait_for_nothing_begin_500_in_a_transaction(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("w", *(step(f"s{n}", handler="py:b") for n in range(1200)))
    run = await connection.fetchval("SELECT pgcron.start_workflow('w'::text)")
    [claimed] = await claim(connection, flow.node)
    claims = {"run_ids": [claimed["id"]], "tokens": [claimed["token"]]}
    await call(connection, "start_claimed_workflows", **claims, node_name="n")

    begun, is_more = [0], True
    while is_more:
        is_more = await connection.fetchval(f"SELECT pgcron.advance_workflow({run})")
        begun.append(await connection.fetchval("SELECT count(*) FROM pgcron.run") - 1)

    assert begun[-1] == 1200
    assert max(after - before for before, after in pairwise(begun)) <= 500


async def test_lists_make_and_begin_500_items_in_a_transaction_however_many_lists_there_are(
    flow: Stage, connection: Connection
) -> None:
    """And all of them, although no item ends meanwhile."""
    lists = [step(f"s{n}", for_each="$.args.list", handler="py:b") for n in range(3)]
    await flow.put("w", *lists)
    run = await connection.fetchval(
        "SELECT pgcron.start_workflow('w'::text, $1)", json.dumps({"list": [1] * 700})
    )
    [claimed] = await claim(connection, flow.node)
    claims = {"run_ids": [claimed["id"]], "tokens": [claimed["token"]]}
    await call(connection, "start_claimed_workflows", **claims, node_name="n")

    made, begun = [0], [0]
    query = "SELECT count(*), count(*) FILTER (WHERE state = 'running') FROM pgcron.step"
    while (await call(connection, "workflows_to_advance", most=1, aside=[], after=0))[0][
        "workflows"
    ]:
        await connection.fetchval("SELECT pgcron.advance_workflow($1)", run)
        [row] = await connection.fetch(f"{query} WHERE item >= 0")
        made.append(row[0])
        begun.append(row[1])

    assert (made[-1], begun[-1]) == (2100, 2100)
    for numbers in (made, begun):
        assert max(after - before for before, after in pairwise(numbers)) == 500
    await flow.work()


@pytest.mark.parametrize("corrected", [{"list": []}, {"list": {}}])
async def test_a_list_that_is_to_begin_anew_makes_no_more_items(
    flow: Stage, connection: Connection, corrected: dict[str, object]
) -> None:
    run = await flow.run(
        step("a"), step("m", "a", for_each="$.a.list", max_parallel=3, handler="py:b")
    )
    rows = await claim_both(connection, flow.node, 10)
    await flow.end(rows, {rows[0]["id"]: "a"}, {"a": {"list": [1] * 2000}})
    for _ in range(2):
        await connection.execute("SELECT pgcron.advance_workflow($1)", run)
    made = "SELECT count(*) FROM pgcron.step WHERE item >= 0"
    assert 0 < await connection.fetchval(made) < 2000
    executing = await claim_both(connection, flow.node, 10)

    await connection.execute(
        "SELECT pgcron.succeed_step($1, 'a', $2::text::jsonb)", run, json.dumps(corrected)
    )
    await flow.advance()

    assert await connection.fetchval(made) < 2000
    asked = "SELECT count(*) FROM pgcron.run WHERE cancel_at IS NOT NULL"
    assert await connection.fetchval(asked) == len(executing)


async def test_a_redrive_keeps_500_successes_in_a_transaction_and_none_of_them_begins(
    flow: Stage, connection: Connection
) -> None:
    """What is to be kept yet is found in the run before: any node goes on with it."""
    wide = [step(f"s{n}", "first", handler="py:b") for n in range(1199)]
    last = step("last", *(f"s{n}" for n in range(1199)), handler="py:c")
    run = await flow.run(step("first", handler="py:a"), *wide, last)
    await flow.work({"last": ValueError()})
    assert await flow.state(run) == "dead"
    flow.began.clear()
    again = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    [claimed] = await claim(connection, flow.node)
    claims = {"run_ids": [claimed["id"]], "tokens": [claimed["token"]]}
    await call(connection, "start_claimed_workflows", **claims, node_name="n")

    kept, is_more = [0], True
    query = "SELECT count(*) FROM pgcron.step WHERE workflow = $1 AND state = 'succeeded'"
    while is_more:
        is_more = await connection.fetchval("SELECT pgcron.advance_workflow($1)", again)
        kept.append(await connection.fetchval(query, again))

    assert kept[-1] == 1200
    assert max(after - before for before, after in pairwise(kept)) == 500
    await flow.work()
    assert flow.began == ["last"]
    assert await flow.state(again) == "succeeded"


@pytest.mark.parametrize(("size", "state"), [(26_000, "succeeded"), (27_000, "dead")])
async def test_the_results_of_a_list_have_one_mebibyte_together(
    flow: Stage, connection: Connection, size: int, state: str
) -> None:
    run = await flow.run(step("b", for_each="$.args.list"), step("c", "b"), args={"list": [1] * 40})
    await flow.work({"b": "x" * size})
    query = "SELECT coalesce(reason, '') FROM pgcron.workflow_steps WHERE name = 'b' AND item < 0"
    assert await flow.state(run) == state
    assert ("1048576" in await connection.fetchval(query)) == (state == "dead")


@pytest.mark.parametrize(("shape", "state"), [("list", "dead"), ("join", "dead"), ("ends", None)])
async def test_results_that_are_too_large_are_not_put_together(
    flow: Stage, connection: Connection, shape: str, state: str | None
) -> None:
    """It would be more than a JSON document of PostgreSQL may have."""
    names = [f"s{n}" for n in range(1100)]
    steps = [step(name, handler="py:b") for name in names]
    if shape == "list":
        steps = [step("last", for_each="$.args.list", handler="py:b")]
    elif shape == "join":
        steps.append(step("last", *names, when="$.s1 == 1"))
    run = await flow.run(*steps, args={"list": names})
    rows = await claim(connection, flow.node, 1100)
    await flow.end(rows[1:], {row["id"]: "b" for row in rows}, {"b": 1})
    # from a table: what it holds is compressed already
    await connection.execute(
        "CREATE TEMPORARY TABLE large AS SELECT to_jsonb(repeat('x', 260000)) AS result;"
        "UPDATE pgcron.step s SET result = l.result FROM large l WHERE s.result = '1'"
    )

    await flow.end(rows[:1], {rows[0]["id"]: "b"}, {"b": 1})
    await flow.advance()

    assert await flow.state(run) == (state or "succeeded")
    assert await flow.result(run) is None
    query = "SELECT reason FROM pgcron.workflow_steps WHERE name = 'last' AND item < 0"
    reason = await connection.fetchval(query)
    assert reason is None if state is None else "more than the 1048576 bytes" in reason


async def test_steps_that_are_cleared_begin_500_in_a_transaction(
    flow: Stage, connection: Connection
) -> None:
    last = {"name": "last", "wait_for": "approval", "finally": True}
    steps = [step(f"s{n}", handler="py:b") for n in range(1200)]
    run = await flow.run(*steps, last, on_failure="kill")
    await fail(connection, await claim(connection, flow.node, 1), retryable=False)
    count = "SELECT count(*) FROM pgcron.run WHERE origin = 'step'"
    while await connection.fetchval(count):
        await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
        await flow.advance()
    name = await connection.fetchval("SELECT name FROM pgcron.workflow_steps WHERE state = 'dead'")

    await connection.execute("SELECT pgcron.clear_step($1, $2)", run, name)
    begun, is_more = [0], True
    while is_more:
        is_more = await connection.fetchval("SELECT pgcron.advance_workflow($1)", run)
        begun.append(await connection.fetchval(count))

    assert begun[-1] == 1200
    assert max(after - before for before, after in pairwise(begun)) <= 500


_READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_xact_user_tables
WHERE relname IN ('step', 'workflow_step', 'workflow_edge')
"""


async def test_a_clear_reads_each_step_a_few_times(flow: Stage, connection: Connection) -> None:
    """As the engine plans statements, and before the server has statistics of the steps."""
    last = {"name": "last", "wait_for": "approval", "finally": True}
    run = await flow.run(step("a"), *(step(f"s{n}", "a", handler="py:b") for n in range(800)), last)
    await flow.work()

    for setting in ("plan_cache_mode = force_generic_plan", "enable_seqscan = off"):
        await connection.execute(f"SET {setting}; SET statement_timeout = '20s'")
    async with connection.transaction():
        before = await connection.fetchval(_READ)
        await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
        await connection.execute("SELECT pgcron.advance_workflow($1)", run)
        assert await connection.fetchval(_READ) - before < 40 * 800
    await flow.work()
    assert flow.began.count("a") == 2
