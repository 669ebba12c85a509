"""Workflows: what goes wrong beside them, or at the same moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connect, Connection, Row, call, claim, claim_both, fail, kill
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def begin(flow: Stage) -> dict[str, Row]:
    """Claims what may begin, by the names of handlers."""
    return {
        row["handler"].partition(":")[2]: row
        for row in await claim_both(flow.connection, flow.node, 1000)
    }


async def finish(connection: Connection, *rows: Row, result: Any = None) -> None:
    """By a connection of its own."""
    await call(
        connection,
        "finish_runs",
        run_ids=[row["id"] for row in rows],
        tokens=[row["token"] for row in rows],
        elapsed_seconds=[0.1] * len(rows),
        results=[None if result is None else json.dumps(result)] * len(rows),
        without_args=None,
        node="n",
    )


async def alive(connection: Connection, handler: str) -> list[Row]:
    return await connection.fetch(
        "SELECT * FROM pgcron.run WHERE handler = $1 ORDER BY id", f"py:{handler}"
    )


async def test_a_workflow_that_its_node_lost_before_it_began_is_not_over(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("w", step("a"))
    run = await connection.fetchval("SELECT pgcron.start_workflow('w'::text)")
    [row] = await claim(connection, flow.node)
    await kill(connection, flow.node)
    await call(connection, "reap_runs", at_most=10)
    late = await call(
        connection,
        "finish_late",
        run_ids=[run],
        fences=[row["fence"]],
        results=[None],
        without_args=None,
        declared=None,
        node_name="n",
    )
    assert late == []
    assert await flow.state(run) == "ready"


async def test_an_open_signal_stops_no_other_step(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    waits = {"name": "go", "wait_for": "signal"}
    run = await flow.run(step("a"), waits, step("b", "a", for_each="$.a"))
    other = await another()
    async with other.transaction():
        await other.execute("SELECT pgcron.signal($1, 'go')", run)
        await flow.turn({"a": [1]})
        await flow.turn({"b": None})
        assert (await flow.states(run))["b"] == "succeeded"
    await flow.advance()
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(
    "command",
    [
        "clear_step($1, 'a')",
        "skip_step($1, 'a')",
        "succeed_step($1, 'b')",
        "skip_step($1, 'd')",
        "set_step_args($1, 'c', '{}')",
    ],
)
async def test_an_open_transaction_of_an_operator_stops_no_other_step(
    flow: Stage, connection: Connection, another: Connect, command: str
) -> None:
    run = await flow.run(
        step("a"), step("b"), step("c", "a", "b"), step("d", "a"), step("e", "d", for_each="$.d")
    )
    rows = await begin(flow)
    await finish(connection, rows["a"])
    await flow.advance()
    rows |= await begin(flow)
    other = await another()
    await connection.execute("SET lock_timeout = '5s'")
    async with other.transaction():
        await other.execute(f"SELECT pgcron.{command}", run)
        await finish(connection, rows["b"])
        await finish(connection, rows["d"], result=[1])
        for _ in range(3):
            await call(connection, "advance_workflow", workflow=run, most=500)
        assert [row["handler"] for row in await alive(connection, "e")] == ["py:e"]
    await flow.advance()
    await flow.work({"d": [1]})
    assert await flow.state(run) == "succeeded"


async def test_what_is_locked_is_not_looked_for_again_and_again(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    rows = await begin(flow)
    other = await another()
    async with other.transaction():
        await other.execute("SELECT pgcron.set_step_args($1, 'b', '{}')", run)
        await finish(connection, rows["a"])
        before = await connection.fetchval("SELECT max(id) FROM pgcron.step_outbox")
        await call(connection, "advance_workflow", workflow=run, most=500)
        assert await connection.fetchval("SELECT max(id) FROM pgcron.step_outbox") == before
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_that_is_locked_keeps_no_other_one_waiting(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    first = await flow.run(step("a"))
    second = await flow.start()
    await connection.execute(
        "INSERT INTO pgcron.step_outbox (workflow) SELECT $1 FROM generate_series(1, 2000)", first
    )
    await connection.execute("INSERT INTO pgcron.step_outbox (workflow) VALUES ($1)", second)
    [found] = await call(connection, "workflows_to_advance", most=50, aside=[], after=0)
    assert sorted(found["workflows"]) == [first, second]


async def test_a_step_that_begins_while_it_is_cleared_is_ended_first(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    run = await flow.run(step("a"), step("b"), step("c", "a", "b"))
    rows = await begin(flow)
    await finish(connection, rows["a"])
    other = await another()
    await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    transaction = other.transaction()
    await transaction.start()
    await finish(other, rows["b"])  # c begins
    clearing = asyncio.create_task(call(connection, "advance_workflow", workflow=run, most=500))
    await asyncio.wait([clearing], timeout=0.3)
    await transaction.commit()
    await clearing
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()
    await flow.work()
    assert flow.began == ["a", "c"]
    assert await flow.state(run) == "succeeded"


async def test_while_steps_are_cleared_none_of_them_begins(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a", for_each="$.a", max_parallel=1), step("c", "b"))
    await flow.turn({"a": [1, 2, 3]})
    [row] = await claim_both(connection, flow.node, 10)
    await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.advance()
    await finish(connection, row)
    await flow.advance()
    assert await alive(connection, "b") == []
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()
    flow.began.clear()
    await flow.work({"a": [4]})
    assert flow.began == ["a", "b", "c"]
    assert await flow.state(run) == "succeeded"


async def test_a_step_that_was_marked_is_over_before_it_is_cleared(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    [row] = (await begin(flow)).values()
    await connection.execute("SELECT pgcron.succeed_step($1, 'a')", run)
    await flow.advance()
    await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.advance()
    assert len(await alive(connection, "a")) == 1
    await fail(connection, [row], retryable=False)
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_what_was_undone_is_done_again_with_what_is_cleared(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a"),
        step("b", "a"),
        step("undo_a", compensates="a"),
        step("last", **{"finally": True}),
    )
    await flow.turn({"a": None})
    await flow.turn({"b": ValueError()})
    await flow.turn({"undo_a": None})
    assert flow.began == ["a", "b", "undo_a"]
    await connection.execute("SELECT pgcron.clear_step($1, 'b')", run)
    await flow.advance()
    await flow.work()
    assert flow.began[3:] in (["last", "a", "b", "last"], ["a", "b", "last"])
    assert await flow.state(run) == "succeeded"


async def test_after_a_failure_that_stops_all_a_clear_runs_what_was_stopped(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a"),
        step("b"),
        step("c", for_each="$.args.list", max_parallel=1),
        step("d", "c"),
        step("e", "b"),
        step("last", **{"finally": True}),
        args={"list": [1, 2]},
        on_failure="kill",
    )
    rows = await begin(flow)
    await fail(connection, [rows["a"]], retryable=False)
    await flow.advance()
    await fail(connection, [rows["b"], rows["c"]], retryable=False)
    await flow.advance()
    assert await flow.states(run) == {
        "a": "dead",
        "b": "cancelled",
        "c": "cancelled",
        "d": "upstream_failed",
        "e": "upstream_failed",
        "last": "running",
    }
    because = "step a ended dead (on_failure: kill)"
    reason = "SELECT reason FROM pgcron.workflow_steps WHERE run_id = $1 AND name = 'b'"
    assert await connection.fetchval(reason, run) == because
    await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.advance()
    await flow.work()
    assert set((await flow.states(run)).values()) == {"succeeded"}
    assert await flow.state(run) == "succeeded"


async def test_a_rejected_step_that_is_cleared_waits_for_another_answer(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run({"name": "go", "wait_for": "approval"}, step("a"))
    await connection.execute("SELECT pgcron.approve_step($1, 'go', false)", run)
    await flow.advance()
    assert (await flow.states(run))["go"] == "dead"
    await connection.execute("SELECT pgcron.clear_step($1, 'go')", run)
    await flow.advance()
    assert (await flow.states(run))["go"] == "running"
    await connection.execute("SELECT pgcron.approve_step($1, 'go')", run)
    await flow.advance()
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_clear_of_a_workflow_that_ends_meanwhile_leaves_nothing_behind(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"))
    await flow.work()
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await call(connection, "advance_workflow", workflow=run, most=500)
    [found] = await call(connection, "workflows_to_advance", most=50, aside=[], after=0)
    assert found["workflows"] == []


async def test_a_workflow_does_not_end_under_a_clear(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"))
    [row] = (await begin(flow)).values()
    await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await finish(connection, row)
    assert await flow.state(run) == "blocked"
    await flow.advance()
    await flow.work()
    assert flow.began == ["a"]
    assert await flow.state(run) == "succeeded"


async def test_a_step_that_begins_while_it_is_skipped_is_asked_to_stop(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    rows = await begin(flow)
    await connection.execute("SELECT pgcron.skip_step($1, 'b')", run)
    await finish(connection, rows["a"])  # b begins
    [row] = (await begin(flow)).values()
    await flow.advance()
    assert (await flow.states(run))["b"] == "skipped"
    [row] = await alive(connection, "b")
    assert row["cancel_at"] is not None
    assert await flow.state(run) == "succeeded"


async def test_a_list_that_is_skipped_ends_its_items(flow: Stage, connection: Connection) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list", max_parallel=1), step("b"), args={"list": [1, 2, 3]}
    )
    rows = await begin(flow)
    await connection.execute("SELECT pgcron.skip_step($1, 'a')", run)
    await flow.advance()
    [row] = await alive(connection, "a")
    assert row["cancel_at"] is not None
    await fail(connection, [rows["a"]], retryable=False)
    await finish(connection, rows["b"])
    await flow.advance()
    assert await flow.state(run) == "succeeded"
    states = await connection.fetch("SELECT state FROM pgcron.workflow_steps WHERE item >= 0")
    assert {row["state"] for row in states} == {"cancelled"}


async def test_a_kill_ends_workflows_in_it_without_what_is_final(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("v", step("a"), step("last", **{"finally": True}))
    run = await flow.run({"name": "inner", "handler": "workflow:v"})
    await flow.turn({})
    rows = await begin(flow)
    await connection.execute("SELECT pgcron.kill_run($1)", run)
    await flow.advance()
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()
    await fail(connection, [rows["a"]], retryable=False)
    await flow.advance()
    await flow.work()
    assert flow.began == []
    assert await flow.state(run) == "cancelled"


async def test_a_step_that_begins_while_its_workflow_is_canceled_is_asked_to_stop(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    rows = await begin(flow)
    other = await another()
    transaction = other.transaction()
    await transaction.start()
    await finish(other, rows["a"])  # b begins
    await connection.execute("SELECT pgcron.cancel_run($1)", run)
    await call(connection, "advance_workflow", workflow=run, most=500)
    await transaction.commit()
    [row] = (await begin(flow)).values()
    await connection.execute("UPDATE pgcron.workflow_run SET look_at = now() WHERE look_at > now()")
    await flow.advance()
    [row] = await alive(connection, "b")
    assert row["cancel_at"] is not None
    await fail(connection, [row], retryable=False)
    await flow.advance()
    assert await flow.state(run) == "cancelled"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pgcron.workflow_step SET handler = 'b' WHERE name = 'b'",
        "UPDATE pgcron.workflow_step SET options = '{\"priority\": \"x\"}' WHERE name = 'b'",
        "UPDATE pgcron.workflow_step SET options = '{\"timeout\": \"x\"}' WHERE name = 'b'",
        "UPDATE pgcron.workflow_step SET args = '[]' WHERE name = 'b'",
        "UPDATE pgcron.step SET waits = 0 WHERE number = 2 AND definition = 1",
        "UPDATE pgcron.workflow_step SET args_from = '[]' WHERE name = 'b'",
    ],
)
async def test_a_bad_row_fails_its_step_and_stops_no_other_workflow(
    connection: Connection, damage: str
) -> None:
    flow = await stage(connection)
    bad = await flow.run(step("a"), step("b", "a"))
    rows = await begin(flow)
    await flow.put("v", step("c"), step("d", "c"))
    good = await flow.start("v")
    rows |= await begin(flow)
    await connection.execute(damage)
    await finish(connection, rows["a"], rows["c"])
    assert await alive(connection, "a") == await alive(connection, "c") == []
    assert (await flow.states(bad))["a"] in ("succeeded", "running")
    try:
        await flow.advance()
    except asyncpg.PostgresError:
        assert "waits" in damage
    await call(connection, "advance_workflow", workflow=good, most=500)
    await finish(connection, *(await begin(flow)).values())
    assert await flow.state(good) == "succeeded"


async def test_no_more_steps_than_may_begin_when_two_end_at_once(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    names = [f"s{n}" for n in range(8)]
    run = await flow.run(
        step("a"),
        step("b"),
        *(step(name, "a" if n < 4 else "b", handler="py:c") for n, name in enumerate(names)),
        parallelism=4,
    )
    rows = await begin(flow)
    other = await another()
    async with other.transaction():
        await finish(other, rows["a"])
        await finish(connection, rows["b"])
    await flow.advance()
    assert len(await alive(connection, "c")) == 4
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_that_was_deleted_ends_what_waits_of_it(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("w", step("a"))
    run = await connection.fetchval("SELECT pgcron.start_workflow('w'::text)")
    await connection.execute("SELECT pgcron.delete_workflow('w')")
    offered = [row["handler"] for row in await call(connection, "workflow_names")]
    assert "workflow:w" in offered
    await flow.work()
    assert await flow.state(run) == "dead"


async def test_definitions_that_are_committed_in_another_order_are_all_learned(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    other = await another()
    seen = []
    async with other.transaction():
        await other.execute(
            "SELECT pgcron.put_workflow('v', $1)", json.dumps({"steps": [step("a")]})
        )
        await flow.put("w", step("a"))
        seen += await call(connection, "workflows_to_advance", most=50, aside=[], after=0)
    seen += await call(connection, "workflows_to_advance", most=50, aside=[], after=0)
    assert seen[0]["newest"] != seen[1]["newest"]


@pytest.mark.parametrize("end", ["lost", "dead", "expired", "cancelled"])
async def test_every_end_of_a_run_is_told(flow: Stage, connection: Connection, end: str) -> None:
    delivery = "at_most_once" if end == "lost" else "at_least_once"
    keys = {"start_within": "1 hour", "max_attempts": 1, "delivery": delivery}
    run = await flow.run(step("a", **keys), step("b", "a", rule="one_failed"))
    [row] = await alive(connection, "a")
    if end == "expired":
        await connection.execute("UPDATE pgcron.run SET expire_at = now() WHERE handler = 'py:a'")
        await call(connection, "expire_runs", run_ids=[row["id"]], reason="late")
    elif end == "cancelled":
        await connection.execute("SELECT pgcron.cancel_run($1)", row["id"])
    else:
        await begin(flow)
        await kill(connection, flow.node)
        await call(connection, "reap_runs", at_most=100)
    await flow.advance()
    assert await flow.states(run) == {"a": end, "b": "running"}


async def test_a_workflow_whose_run_is_gone_is_over(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    [row] = (await begin(flow)).values()
    await connection.execute("SELECT pgcron.end_refused_run($1, NULL, 'it is bad')", run)
    await connection.execute("INSERT INTO pgcron.step_outbox (workflow) VALUES ($1)", run)
    await flow.advance()
    await fail(connection, [row], retryable=False)
    await flow.advance()
    assert await flow.states(run) == {"a": "cancelled", "b": "upstream_failed"}
    assert await flow.state(run) == "dead"


async def test_what_is_final_is_repeated_although_its_workflow_stops(
    flow: Stage, connection: Connection
) -> None:
    repeat = {"while": "$ == 1", "at_most": 3, "every": "1 microsecond"}
    run = await flow.run(step("a"), step("last", repeat=repeat, **{"finally": True}))
    await connection.execute("SELECT pgcron.cancel_run($1)", run)
    await flow.advance()
    await flow.turn({"last": 1})
    await flow.turn({"last": 0})
    assert await flow.states(run) == {"a": "cancelled", "last": "succeeded"}


async def test_a_workflow_that_stops_for_a_failure_has_a_timeout_yet(
    flow: Stage, connection: Connection
) -> None:
    await flow.run(step("a"), step("b"), on_failure="stop", timeout="1 hour")
    rows = await begin(flow)
    await fail(connection, [rows["a"]], retryable=False)
    await flow.advance()
    await connection.execute("UPDATE pgcron.workflow_run SET deadline = now()")
    await flow.advance()
    [row] = await alive(connection, "b")
    assert row["cancel_at"] is not None
    await fail(connection, [row], retryable=False)
    await flow.advance()


async def test_a_workflow_in_another_one_has_the_timeout_of_its_step(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("v", step("a"))
    await flow.run({"name": "inner", "handler": "workflow:v", "timeout": "3 hours"})
    await flow.turn({})
    hours = await connection.fetch(
        "SELECT extract(epoch FROM deadline - started_at) / 3600 FROM pgcron.workflow_run"
        " WHERE deadline IS NOT NULL"
    )
    assert [row[0] for row in hours] == [3]


async def test_what_is_skipped_after_a_clear_says_so(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"), step("b", "a", rule="one_failed"), step("c"))
    await flow.turn({"a": None})
    await connection.execute("SELECT pgcron.clear_step($1, 'b')", run)
    await flow.advance()
    reason = await connection.fetchval("SELECT reason FROM pgcron.workflow_steps WHERE name = 'b'")
    assert reason == "no step before it allows it to run"


async def test_a_long_chain_that_never_runs_is_ended_in_parts(
    flow: Stage, connection: Connection
) -> None:
    names = [f"s{n}" for n in range(250)]
    chain = [
        step(name, *before, handler="py:b")
        for name, *before in zip(names, ["a", *names], strict=False)
    ]
    run = await flow.run(step("a"), *chain)
    [row] = (await begin(flow)).values()
    await fail(connection, [row], retryable=False)
    await call(connection, "advance_workflow", workflow=run, most=500)
    states = list((await flow.states(run)).values())
    assert 50 < states.count("upstream_failed") < 150
    await flow.advance()
    assert await flow.state(run) == "dead"


_STEPS_READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_xact_user_tables
WHERE relname IN ('step', 'workflow_step', 'workflow_edge')
"""


async def test_the_page_of_a_wide_workflow_looks_each_step_up_a_few_times(
    flow: Stage, connection: Connection
) -> None:
    """Also before the server has statistics of its steps."""
    names = [f"s{number}" for number in range(1500)]
    run = await flow.run(step("first"), *(step(each, "first") for each in names), step("z", *names))
    await flow.advance()
    definition = await connection.fetchval("SELECT definition FROM pgcron.workflow_run")
    asked: dict[str, dict[str, Any]] = {
        "page_step_counts": {"cleared": None},
        "page_step_groups": {
            "definition": definition,
            "numbers": list(range(1, 1503)),
            "groups": [number // 100 for number in range(1, 1503)],
        },
        "page_longest_steps": {"definition": definition, "path": 50, "limit": 80},
        "page_workflow_nodes": {"definition": definition, "after": None, "limit": 300},
    }
    undone = connection.transaction()
    await undone.start()
    await connection.execute(
        "UPDATE pgcron.step SET state = 'succeeded', started_at = now(), ended_at = now()"
    )
    for name, values in asked.items():
        before = await connection.fetchval(_STEPS_READ)
        await call(connection, name, run_id=run, **values)
        assert await connection.fetchval(_STEPS_READ) - before < 15 * 1500, name
    await undone.rollback()
