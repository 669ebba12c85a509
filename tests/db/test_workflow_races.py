"""Two who go on with one workflow at the same time: nobody waits, nothing is exceeded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from tests.db.control import Connection, Row, call, claim, fail
from tests.db.workflows import Stage, stage, step
from tests.sessions import USUAL


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


@pytest.fixture
async def other(database: str) -> AsyncIterator[Connection]:
    """A second session, which does not wait for locks."""
    session = await asyncpg.connect(database)
    await session.execute(f"{USUAL}; SET lock_timeout = '1s'")
    yield session
    session.terminate()


async def finish(connection: Connection, rows: list[Row]) -> None:
    await call(
        connection,
        "finish_runs",
        run_ids=[row["id"] for row in rows],
        tokens=[row["token"] for row in rows],
        elapsed_seconds=[0.1] * len(rows),
        results=None,
        without_args=None,
        node="n",
    )


async def test_two_ends_at_the_same_time_begin_no_more_than_may_execute(
    flow: Stage, other: Connection
) -> None:
    below = [step(f"{name}{number}", name) for name in "ab" for number in range(3)]
    for each in below:
        each["handler"] = "py:c"
    run = await flow.run(step("a"), step("b"), *below, parallelism=3)
    rows = await claim(flow.connection, flow.node)
    assert len(rows) == 2

    async with flow.connection.transaction():
        await finish(flow.connection, rows[:1])
        await finish(other, rows[1:])

    states = list((await flow.states(run)).values())
    assert states.count("running") <= 3
    await flow.advance()
    assert list((await flow.states(run)).values()).count("running") == 3
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_an_end_does_not_wait_for_who_goes_on_with_its_workflow(
    flow: Stage, other: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a", args_from={"x": "$.args"}))
    rows = await claim(flow.connection, flow.node)

    async with flow.connection.transaction():
        await call(flow.connection, "advance_workflow", workflow=run, most=500)
        await finish(other, rows)  # its step is written twice, so that its foreign key is looked at

    assert await flow.states(run) == {"a": "succeeded", "b": "running"}
    await flow.work()


async def test_a_workflow_that_has_ended_meanwhile_is_not_cleared(
    flow: Stage, other: Connection
) -> None:
    run = await flow.run(step("a"))
    rows = await claim(flow.connection, flow.node)
    await finish(flow.connection, rows)

    with pytest.raises(asyncpg.PostgresError, match=f"workflow run {run} is over"):
        await other.execute("SELECT pgcron.clear_step($1, 'a')", run)
    row = await other.fetchrow("SELECT * FROM pgcron.workflow_run")
    assert row is not None
    assert (row["look_at"], row["clearing"]) == (None, None)


async def test_what_is_ended_to_run_again_does_not_kill_its_workflow(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"), step("c"), on_failure="kill")
    rows = {row["handler"]: row for row in await claim(flow.connection, flow.node)}
    for name in "ab":
        await flow.connection.execute("SELECT pgcron.clear_step($1, $2)", run, name)
    await flow.advance()
    for name in "ab":
        await fail(flow.connection, [rows[f"py:{name}"]], retryable=False)
        await flow.connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
        await flow.advance()

    assert await flow.connection.fetchval("SELECT stopping FROM pgcron.workflow_run") is None
    assert await flow.connection.fetchval(
        "SELECT cancel_at IS NULL FROM pgcron.run WHERE id = $1", rows["py:c"]["id"]
    )
    await finish(flow.connection, [rows["py:c"]])
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_signal_that_comes_while_its_step_begins_is_not_overlooked(
    flow: Stage, other: Connection
) -> None:
    run = await flow.run(step("a"), {"name": "go", "wait_for": "signal", "after": "a"})
    rows = await claim(flow.connection, flow.node)

    async with other.transaction():
        await finish(other, rows)
        await flow.connection.execute("SELECT pgcron.signal($1, 'go', '1')", run)
        await flow.advance()
    await flow.advance()

    assert (await flow.states(run))["go"] == "succeeded"


async def test_a_step_that_dies_as_it_begins_stops_its_workflow_at_once(flow: Stage) -> None:
    run = await flow.run(
        step("a"), step("b", "a", args_from={"x": "$.a.nothing"}), step("c"), on_failure="kill"
    )
    rows = {row["handler"]: row for row in await claim(flow.connection, flow.node)}
    await finish(flow.connection, [rows["py:a"]])
    await flow.advance()

    assert (await flow.states(run))["b"] == "dead"
    assert await flow.connection.fetchval(
        "SELECT cancel_at IS NOT NULL FROM pgcron.run WHERE id = $1", rows["py:c"]["id"]
    )
    await fail(flow.connection, [rows["py:c"]], retryable=False)
    await flow.work()
    assert await flow.state(run) == "dead"


async def test_a_step_that_begins_while_its_workflow_is_stopped_is_ended_too(
    flow: Stage, other: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    rows = await claim(flow.connection, flow.node)

    async with other.transaction():
        await finish(other, rows)
        await flow.connection.execute("SELECT pgcron.cancel_run($1)", run)
        await flow.advance()
    assert (await flow.states(run))["b"] == "running"
    looks = "UPDATE pgcron.workflow_run SET look_at = now() WHERE look_at IS NOT NULL"
    await flow.connection.execute(looks)
    await flow.advance()

    assert await flow.states(run) == {"a": "succeeded", "b": "cancelled"}
    assert await flow.state(run) == "cancelled"


async def test_a_kill_reaches_the_workflows_within(flow: Stage) -> None:
    await flow.put("v", step("a"), step("last", **{"finally": True}))
    run = await flow.run({"name": "inner", "handler": "workflow:v"})
    await flow.turn({})
    [executing] = await claim(flow.connection, flow.node)
    assert executing["handler"] == "py:a"
    await flow.connection.execute("SELECT pgcron.kill_run($1)", run)
    await flow.advance()

    stops = await flow.connection.fetch("SELECT stopping FROM pgcron.workflow_run ORDER BY run")
    assert [row["stopping"] for row in stops] == ["abort", "abort"]


async def test_who_defines_steps_in_an_open_transaction_keeps_no_other_from_it(
    flow: Stage, other: Connection
) -> None:
    definition = '{"steps": [{"name": "a", "handler": "py:%s"}]}'
    start = "SELECT pgcron.start_workflow($1::jsonb)"
    async with flow.connection.transaction():
        first = await flow.connection.fetchval(start, definition % "one")
        for handler in ("two", "one"):
            await other.fetchval(start, definition % handler)

    assert first is not None
    kept = await other.fetchval("SELECT count(*) FROM pgcron.workflow_run")
    assert kept == 3


async def test_who_has_lost_the_run_adds_no_steps(flow: Stage) -> None:
    run = await flow.run(step("a"))
    [row] = await claim(flow.connection, flow.node)
    added = '{"steps": [{"name": "b", "handler": "py:b"}]}'
    ended = {"run_id": row["id"], "elapsed": 0.1, "result": None, "node": "n", "keep_args": True}
    with pytest.raises(asyncpg.PostgresError, match=f"run {row['id']} is over"):
        await call(flow.connection, "finish_run", **ended, token=UUID(int=1), declared=added)

    await call(flow.connection, "finish_run", **ended, token=row["token"], declared=added)
    with pytest.raises(asyncpg.PostgresError, match=f"run {row['id']} is over"):
        await call(flow.connection, "finish_run", **ended, token=row["token"], declared=added)

    nested = "SELECT count(*) FROM pgcron.run WHERE handler = 'workflow:ad_hoc'"
    assert await flow.connection.fetchval(nested) == 1
    assert await flow.states(run) == {"a": "running"}


@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
async def test_a_ready_step_that_an_operator_has_locked_stops_no_other_one(
    flow: Stage, other: Connection, verb: str
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c", "a"))
    await flow.connection.execute("SELECT pgcron.pause_workflow($1)", run)
    await flow.turn({"a": None})
    await other.execute("BEGIN")
    await other.execute("SELECT pgcron.set_step_args($1, 'b', '{}')", run)

    await flow.connection.execute("SET lock_timeout = '1s'")
    await flow.connection.execute("SELECT pgcron.resume_workflow($1)", run)
    await flow.work()
    assert await flow.states(run) == {"a": "succeeded", "b": "ready", "c": "succeeded"}

    await other.execute(verb)
    if verb == "ROLLBACK":  # nobody says so: it is looked at again
        looks = "UPDATE pgcron.workflow_run SET look_at = now() WHERE look_at IS NOT NULL"
        await flow.connection.execute(looks)
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_signal_that_came_before_anybody_saw_the_deadline_counts(flow: Stage) -> None:
    waits = {"name": "go", "wait_for": "signal", "deadline": "1 hour"}
    run = await flow.run(waits)
    await flow.connection.execute("SELECT pgcron.signal($1, 'go', '[1]')", run)
    await flow.connection.execute("UPDATE pgcron.step SET due = now() WHERE due IS NOT NULL")
    await flow.advance()
    assert (await flow.state(run), await flow.result(run)) == ("succeeded", [1])
