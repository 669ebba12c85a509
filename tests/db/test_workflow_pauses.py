"""Workflows that are paused: what waits until they are resumed, and what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.db.control import Connection
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def pause(flow: Stage, run: int) -> None:
    await flow.connection.execute("SELECT pgcron.pause_workflow($1, 'look', 'ann')", run)
    await flow.advance()


async def resume(flow: Stage, run: int) -> None:
    await flow.connection.execute("SELECT pgcron.resume_workflow($1)", run)
    await flow.advance()


async def end(flow: Stage, name: str, result: object = None) -> None:
    """The run of a step that executes ends."""
    row = await flow.connection.fetchrow(
        "SELECT * FROM pgcron.run WHERE handler = $1 AND token IS NOT NULL", f"py:{name}"
    )
    assert row is not None
    await flow.end([row], {row["id"]: name}, {name: result})
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
