"""Workflows that are paused: what waits until they are resumed, and what does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.db.control import Connect, Connection, call, claim_both
from tests.db.workflows import Stage, end, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def pause(flow: Stage, run: int) -> None:
    await flow.connection.execute("SELECT pgcron.pause_workflow($1, 'look', 'ann')", run)
    await flow.advance()


async def begin_nested(flow: Stage, *beside: Mapping[str, Any]) -> int:
    """A workflow with another one within, of which the first of two steps executes."""
    await flow.put("v", step("a"), step("b", "a"))
    run = await flow.run({"name": "inner", "handler": "workflow:v"}, *beside)
    for _ in range(2):
        await flow.turn({})
    return run


async def resume(flow: Stage, run: int) -> None:
    await flow.connection.execute("SELECT pgcron.resume_workflow($1)", run)
    await flow.advance()


@pytest.mark.parametrize(("how", "state"), [("cancel", "cancelled"), ("timeout", "dead")])
async def test_a_workflow_that_is_paused_can_be_ended(flow: Stage, how: str, state: str) -> None:
    run = await flow.run(
        step("a"),
        {"name": "go", "wait_for": "signal", "after": "a"},
        step("undo_a", compensates="a"),
        step("last", **{"finally": True}),
        timeout="1 hour",
    )
    await flow.work()
    await pause(flow, run)
    if how == "cancel":
        await flow.connection.execute("SELECT pgcron.cancel_run($1)", run)
    else:
        await flow.connection.execute("UPDATE pgcron.workflow_run SET deadline = now()")
    await flow.work()

    assert flow.began == ["a", "undo_a", "last"]
    assert await flow.state(run) == state


async def test_a_workflow_that_a_failure_stops_stays_paused(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"), step("last", **{"finally": True}), on_failure="stop")
    await flow.turn({})
    await pause(flow, run)
    await end(flow, "a", ValueError())
    await end(flow, "b")
    await flow.work()
    assert flow.began == ["a", "b"]
    await resume(flow, run)
    await flow.work()
    assert flow.began == ["a", "b", "last"]
    assert await flow.state(run) == "dead"


async def test_a_paused_workflow_begins_no_turn_of_a_loop(flow: Stage) -> None:
    repeat = {"while": "$.busy == true", "at_most": 3, "every": "1 microsecond"}
    run = await flow.run(step("a", repeat=repeat))
    await flow.turn({})
    await pause(flow, run)
    await end(flow, "a", {"busy": True})
    await flow.work()
    assert flow.began == ["a"]
    assert await flow.states(run) == {"a": "ready"}

    await resume(flow, run)
    await flow.work({"a": {"busy": True}})
    assert flow.began == ["a", "a", "a"]
    assert await flow.states(run) == {"a": "dead"}


@pytest.mark.parametrize("kind", ["signal", "approval", "timer"])
async def test_a_paused_workflow_begins_to_wait_for_nothing(flow: Stage, kind: str) -> None:
    waits = {"name": "go", "wait_for": kind, "after": "a", "deadline": "1 hour"}
    run = await flow.run(step("a"), waits)
    await flow.turn({})
    await pause(flow, run)
    await end(flow, "a")
    assert await flow.states(run) == {"a": "succeeded", "go": "ready"}
    if kind == "signal":
        kept = await flow.connection.fetchval("SELECT pgcron.signal($1, 'go')", run)
        assert kept == "kept"
    await resume(flow, run)
    assert (await flow.states(run))["go"] == ("succeeded" if kind == "signal" else "running")
    await flow.connection.execute("SELECT pgcron.cancel_run($1)", run)
    await flow.advance()


async def test_a_pause_holds_the_workflows_within(flow: Stage) -> None:
    run = await begin_nested(flow, step("d"))
    await pause(flow, run)
    await end(flow, "a")
    [row] = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:d'")
    added = json.dumps([step("e")])
    await flow.connection.execute("SELECT pgcron.add_steps($1, $2)", row["id"], added)
    await flow.end([row], {row["id"]: "d"}, {"d": None})
    await flow.work()
    assert sorted(flow.began) == ["a", "d"]

    await resume(flow, run)
    await flow.work()
    assert sorted(flow.began) == ["a", "b", "d", "e"]
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_within_that_was_paused_by_itself_stays_so(flow: Stage) -> None:
    run = await begin_nested(flow)
    query = "SELECT step_run FROM pgcron.workflow_steps WHERE name = 'inner'"
    inner = await flow.connection.fetchval(query)
    for each in (inner, run):
        await pause(flow, each)
    await end(flow, "a")
    await resume(flow, run)
    await flow.work()
    assert flow.began == ["a"]
    await resume(flow, inner)
    await flow.work()
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("begins", ["before", "after"])
async def test_what_is_within_a_paused_workflow_that_is_cancelled_runs_finally(
    flow: Stage, begins: str
) -> None:
    await flow.put("v", step("a"), step("b", "a"))
    signal = {"name": "go", "wait_for": "signal", "deadline": "1 day"}
    last = {"name": "last", "handler": "workflow:v", "finally": True}
    run = await flow.run(signal if begins == "after" else step("c"), last)
    if begins == "before":
        for _ in range(3):
            await flow.turn({"c": None})
        assert flow.began == ["c", "a"]
    await pause(flow, run)
    await flow.connection.execute("SELECT pgcron.cancel_run($1)", run)
    await flow.work()
    if begins == "before":
        await end(flow, "a")
    await flow.work()
    assert flow.began[-2:] == ["a", "b"]
    assert await flow.state(run) == "cancelled"


async def test_a_resume_frees_what_is_within_whatever_was_paused_before(flow: Stage) -> None:
    run = await begin_nested(flow)
    inner = await flow.connection.fetchval("SELECT max(run) FROM pgcron.workflow_run")
    await pause(flow, run)
    await end(flow, "a")
    await resume(flow, inner)
    await pause(flow, run)
    await flow.work()
    assert flow.began == ["a"]
    waits = "SELECT waits_detail FROM pgcron.workflow_steps WHERE name = 'b'"
    said = await flow.connection.fetchval(waits)
    assert said == f"the workflow above (run {run}) is paused by ann (look)"
    by = "SELECT paused_by FROM pgcron.workflow_runs WHERE run_id = $1"
    assert await flow.connection.fetchval(by, inner) == "ann"

    await resume(flow, run)
    await flow.work()
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_workflow_within_that_begins_meanwhile_is_paused_or_resumed(
    flow: Stage, another: Connect, verb: str
) -> None:
    await flow.put("v", step("a"), step("b", "a"))
    run = await flow.run({"name": "inner", "handler": "workflow:v"}, step("c"))
    if verb == "resume":
        await pause(flow, run)
    rows = await claim_both(flow.connection, flow.node, 10)
    [row] = [each for each in rows if each["handler"] == "workflow:v"]
    other = await another()
    async with flow.connection.transaction():
        ids, tokens = [row["id"]], [row["token"]]
        await call(
            flow.connection, "start_claimed_workflows", run_ids=ids, tokens=tokens, node_name="n"
        )
        await other.execute(f"SELECT pgcron.{verb}_workflow($1)", run)
    await flow.work()
    assert flow.began == (["a"] if verb == "pause" else ["a", "b"])


async def test_a_resume_wakes_a_workflow_within_that_somebody_has_locked(
    flow: Stage, another: Connect
) -> None:
    run = await begin_nested(flow)
    await pause(flow, run)
    await end(flow, "a")
    other = await another()
    lock = "SELECT FROM pgcron.workflow_run WHERE run <> $1 FOR NO KEY UPDATE"
    async with other.transaction():
        await other.execute(lock, run)
        await flow.connection.execute("SELECT pgcron.resume_workflow($1)", run)
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_pause_of_a_workflow_that_is_over_holds_nothing_within(
    flow: Stage, connection: Connection
) -> None:
    run = await begin_nested(flow)
    await pause(flow, run)
    held = "SELECT pgcron.is_held(w) FROM pgcron.workflow_run w WHERE w.above = $1"
    assert await connection.fetchval(held, run)

    async with connection.transaction():
        await connection.execute(
            "UPDATE pgcron.workflow_run SET ended_at = now() WHERE run = $1", run
        )
        assert not await connection.fetchval(held, run)
        await connection.execute(
            "UPDATE pgcron.workflow_run SET ended_at = NULL WHERE run = $1", run
        )
    await resume(flow, run)
    await end(flow, "a")
    await flow.work()
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(
    ("paused", "seconds"), [("1 second", 30), ("5 minutes", 300), ("1 day", 600)]
)
async def test_what_a_pause_above_has_held_for_long_is_looked_at_less_often(
    flow: Stage, connection: Connection, paused: str, seconds: int
) -> None:
    run = await begin_nested(flow)
    await pause(flow, run)
    await connection.execute(
        "UPDATE pgcron.workflow_run SET started_at = now() - $1::text::interval,"
        " paused_at = CASE WHEN run = $2 THEN now() - $1::text::interval END",
        paused,
        run,
    )
    await end(flow, "a")
    after = await connection.fetchval(
        "SELECT extract(epoch FROM look_at - now())::float8 FROM pgcron.workflow_run"
        " WHERE above = $1",
        run,
    )
    assert seconds - 10 < after < seconds + 10
    await resume(flow, run)
    await flow.work()
    assert await flow.state(run) == "succeeded"
