"""What is kept of workflows that have ended, and for how long."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.db.control import Connect, Connection, call, claim_both, fail
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


AGE = """
UPDATE pgcron.workflow_run SET ended_at = ended_at - interval '400 days';
UPDATE pgcron.workflow_definition SET created_at = created_at - interval '400 days'
"""


async def outlive(connection: Connection) -> int:
    """All that has ended is over since long; how many workflows retention removes."""
    await connection.execute(AGE)
    count = "SELECT count(*) FROM pgcron.workflow_run"
    before: int = await connection.fetchval(count)
    for statement in ("forget_workflows", "forget_definitions"):
        await call(connection, statement, at_most=100)
    return before - int(await connection.fetchval(count))


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_dead_workflow_keeps_its_successes_as_long_as_its_letter(
    flow: Stage, connection: Connection, is_named: bool
) -> None:
    steps = [step("a"), step("b", "a")]
    if is_named:
        run = await flow.run(*steps)
    else:
        definition = json.dumps({"steps": steps})
        run = await connection.fetchval("SELECT pgcron.start_workflow($1::jsonb)", definition)
    await flow.work({"a": 1, "b": ValueError()})
    await flow.put("w", step("a"), step("c"), step("b", "a"))

    assert await outlive(connection) == 0
    again = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    # the letter is closed, and the new run has not begun
    assert await outlive(connection) == 0
    await flow.work()
    assert flow.began == ["a", "b", "b"]
    assert json.loads(flow.results["b"]) == {"a": 1}
    assert await flow.state(again) == "succeeded"

    await connection.execute(
        "UPDATE pgcron.dead_letter SET closed_at = now() - interval '400 days'"
    )
    await call(connection, "forget_letters", at_most=100)
    assert await outlive(connection) == 2


LONG_AGO = """
UPDATE pgcron.workflow_run SET started_at = started_at - interval '400 days';
UPDATE pgcron.step SET started_at = started_at - interval '400 days',
  ended_at = ended_at - interval '400 days';
DELETE FROM pgcron.history; DELETE FROM pgcron.attempt
"""


@pytest.mark.parametrize("is_named", [True, False])
async def test_an_open_workflow_keeps_its_definition_and_results_however_old_they_are(
    flow: Stage, connection: Connection, is_named: bool
) -> None:
    go = {"name": "go", "wait_for": "signal", "after": "a"}
    steps = [step("a"), go, step("b", "a", "go", args_from={"rows": "$.a.rows"})]
    if is_named:
        run = await flow.run(*steps)
    else:
        definition = json.dumps({"steps": steps})
        run = await connection.fetchval("SELECT pgcron.start_workflow($1::jsonb)", definition)
    await flow.work({"a": {"rows": 3}})
    if is_named:  # neither the newest one, nor one that starts
        await flow.put("w", step("c"))
        await connection.execute("SELECT pgcron.delete_workflow('w')")
    await connection.execute(LONG_AGO)

    assert await outlive(connection) == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.workflow_definition") == 1
    await connection.execute("SELECT pgcron.signal($1, 'go')", run)
    await flow.work()
    assert json.loads(flow.results["b"]) == {"a": {"rows": 3}}
    given = "SELECT args FROM pgcron.runs WHERE handler = 'py:b'"
    assert json.loads(await connection.fetchval(given)) == {"rows": 3}
    assert await flow.state(run) == "succeeded"

    assert await outlive(connection) == 1
    for table in ("workflow_definition", "workflow_step", "step"):
        assert await connection.fetchval(f"SELECT count(*) FROM pgcron.{table}") == 0


async def test_the_result_of_a_workflow_within_is_kept_when_that_is_removed(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("v", step("a"))
    go = {"name": "go", "wait_for": "signal", "after": "in"}
    run = await flow.run({"name": "in", "handler": "workflow:v"}, go, step("b", "in", "go"))
    await flow.work({"a": 7})
    await connection.execute(LONG_AGO)

    assert await outlive(connection) == 1
    await connection.execute("SELECT pgcron.signal($1, 'go')", run)
    await flow.work()
    assert json.loads(flow.results["b"]) == {"in": 7}
    assert await flow.state(run) == "succeeded"


async def test_workflows_that_letters_keep_do_not_hold_up_the_others(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b"))
    await flow.work({"a": 1, "b": ValueError()})
    await connection.execute(
        "INSERT INTO pgcron.workflow_run (run, definition, args, ended_at, outcome)"
        " SELECT -n, w.definition, '{}', w.ended_at - interval '1 day', 'dead'"
        " FROM pgcron.workflow_run w, generate_series(1, 300) n WHERE w.run = $1",
        run,
    )
    await connection.execute(
        "INSERT INTO pgcron.dead_letter SELECT (jsonb_populate_record(d, jsonb_build_object("
        " 'run_id', -n))).* FROM pgcron.dead_letter d, generate_series(1, 300) n"
    )
    await flow.run(step("a"))
    await flow.work()
    assert await outlive(connection) == 1


async def test_a_workflow_without_a_name_whose_definition_is_gone_is_not_run_again(
    flow: Stage, connection: Connection
) -> None:
    definition = json.dumps({"steps": [step("a")]})
    run = await connection.fetchval("SELECT pgcron.start_workflow($1::jsonb)", definition)
    await flow.work()
    assert await outlive(connection) == 1
    with pytest.raises(asyncpg.PostgresError, match=f"run {run} can't be run again") as refused:
        await connection.execute("SELECT pgcron.retry_run($1)", run)
    assert refused.value.sqlstate == "PC011"


async def test_a_redrive_that_died_before_it_began_is_redriven_with_what_was_done_before_it(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    await flow.work({"a": 1, "b": ValueError()})
    again = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await fail(connection, await claim_both(connection, flow.node, 10), retryable=False)
    assert await flow.state(again) == "dead"
    # the letter of the first run is closed, and is gone before that of the second
    await connection.execute(
        "UPDATE pgcron.dead_letter SET closed_at = closed_at - interval '400 days'"
    )
    await call(connection, "forget_letters", at_most=100)
    assert await outlive(connection) == 0

    await connection.fetchval("SELECT pgcron.redrive($1)", again)
    await flow.work()

    assert flow.began == ["a", "b", "b"]
    assert json.loads(flow.results["b"]) == {"a": 1}


async def test_many_steps_are_removed_in_parts_and_their_workflow_with_the_last(
    flow: Stage, connection: Connection
) -> None:
    await flow.run(step("a", for_each="$.args.list"), args={"list": [1] * 250})
    await flow.work()
    await connection.execute(AGE)
    removed = []
    while gone := await call(connection, "forget_workflows", at_most=10):
        removed.append(len(gone))
    assert removed == [100, 100, 53]  # 250 items, the list, the end, and the workflow
    assert await connection.fetchval("SELECT count(*) FROM pgcron.workflow_run") == 0


async def test_a_locked_step_keeps_its_workflow_alone(
    flow: Stage, connection: Connection, another: Connect
) -> None:
    """Its other steps are gone, and nobody has waited for it."""
    run = await flow.run(step("a"), step("b"))
    await flow.work()
    await flow.run(step("a"))
    await flow.work()
    holder = await another()
    held = holder.transaction()
    await held.start()
    await holder.execute(
        "SELECT FROM pgcron.step WHERE workflow = $1 AND number = 2 FOR SHARE", run
    )

    await connection.execute("SET lock_timeout = '1s'")
    assert await outlive(connection) == 1
    left = await connection.fetch("SELECT workflow, number FROM pgcron.step")
    assert [tuple(row) for row in left] == [(run, 2)]
    await held.rollback()
    assert await outlive(connection) == 1


async def test_definitions_of_many_steps_are_removed_in_parts(
    flow: Stage, connection: Connection
) -> None:
    for size in (70, 71, 72):
        await flow.put("w", *(step(f"s{n}", handler="py:a") for n in range(size)))
    await connection.execute("SELECT pgcron.delete_workflow('w')")
    await connection.execute(AGE)
    assert len(await call(connection, "forget_definitions", at_most=10)) == 70 + 71
    assert len(await call(connection, "forget_definitions", at_most=10)) == 72
    assert await call(connection, "forget_definitions", at_most=10) == []
