"""What makes runs of a schedule makes workflows: catch-up, the fire before, backfills, assets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from tests.db import test_assets as assets
from tests.db import test_backfills as backfills
from tests.db import test_previous as previous
from tests.db.control import Connection, admit, call, database_now, minutes, put_schedule
from tests.db.workflows import Stage, stage, step
from tests.product.engine import decide, materialize_parameters

STEPS = (step("a"), step("b", "a"))


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    await made.put("w", *STEPS)
    yield made
    await made.check()


async def runs(connection: Connection) -> list[int]:
    """The workflows, ended or not, in the order of their fires."""
    rows = await connection.fetch(
        "SELECT id FROM pgcron.runs WHERE handler = 'workflow:w'"
        " ORDER BY coalesce(scheduled_for, nominal_for)"
    )
    return [row["id"] for row in rows]


async def fires_of_steps(connection: Connection) -> list[datetime]:
    """What fire each run of a step was for, in the order in which they ended."""
    rows = await connection.fetch(
        "SELECT nominal_for FROM pgcron.history WHERE origin = 'step' ORDER BY finished_at, id"
    )
    return [row["nominal_for"] for row in rows]


async def begin(flow: Stage) -> None:
    """What may begin executes its first step, and that has ended."""
    await admit(flow.connection)
    await flow.turn({})
    assert await flow.turn({"a": None}) == ["a"]


async def test_a_schedule_catches_up_with_one_workflow_after_the_other(
    flow: Stage, connection: Connection
) -> None:
    minute = (await database_now(connection) + minutes(30)).minute  # no fire of this minute
    policies: dict[str, Any] = {
        "overlap": "queue",
        "catchup": "latest 3",
        "catchup_window": minutes(600),
    }
    await put_schedule(connection, spec=f"{minute} * * * *", handler="workflow:w", **policies)
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - interval '6 hours', next_fire = NULL"
    )
    rows = await call(connection, "due_cursors", refill=60, at_most=10, aside=[])
    decisions = [(row, *decide(dict(row), 0)) for row in rows]
    await call(connection, "materialize", **materialize_parameters(decisions))

    made = await runs(connection)
    assert len(made) == 3
    for number in range(3):
        await begin(flow)
        states = [await flow.state(run) for run in made]
        assert states == ["succeeded"] * number + ["blocked"] * (3 - number)
        await flow.work()
    assert [await flow.state(run) for run in made] == ["succeeded"] * 3
    assert flow.began == ["a", "b"] * 3
    fires = await connection.fetch(
        "SELECT fire_at FROM pgcron.occurrence WHERE decision = 'run' ORDER BY fire_at"
    )
    assert await fires_of_steps(connection) == [fire[0] for fire in fires for _ in STEPS]


@pytest.mark.parametrize("end", ["succeeded", "dead"])
async def test_a_fire_waits_until_the_workflow_of_the_fire_before_is_over(
    flow: Stage, connection: Connection, end: str
) -> None:
    schedule = await put_schedule(
        connection, handler="workflow:w", overlap="queue", depends_on_previous=True
    )
    await previous.fire(connection, schedule, 1)
    assert await previous.decide(connection) == 1
    await begin(flow)
    instant = await previous.fire(connection, schedule, 2)
    assert await previous.decide(connection) == 0
    first, second = await runs(connection)

    await flow.work({"b": None if end == "succeeded" else ValueError()})
    assert [await flow.state(run) for run in (first, second)] == [end, "blocked"]
    assert await previous.decide(connection) == 1
    if end == "dead":
        assert await previous.reported(connection, instant) == (
            "upstream_failed",
            "previous_failed",
            f"run {first} of the fire before ended dead",
        )
        await connection.execute("SELECT pgcron.redrive($1)", first)
        await admit(connection)
        await flow.work()
        instant = await previous.fire(connection, schedule, 3)
        assert await previous.decide(connection) == 1
        second = (await runs(connection))[-1]
    await admit(connection)
    await flow.work()
    assert await flow.state(second) == "succeeded"
    assert (await fires_of_steps(connection))[-2:] == [instant, instant]


@pytest.mark.parametrize("end", ["succeeded", "dead"])
async def test_a_backfill_goes_on_when_the_workflow_of_an_instant_is_over(
    flow: Stage, connection: Connection, end: str
) -> None:
    await put_schedule(connection, handler="workflow:w", overlap="allow")
    backfill = await backfills.ask(connection, 2)
    instants = backfills.instants(2)
    assert await backfills.step(connection, backfill, instants, is_last=True) == ("open", 1, 1)
    await begin(flow)
    assert await backfills.step(connection, backfill, instants[1:], is_last=True) == ("open", 0, 0)

    await flow.work({"b": None if end == "succeeded" else ValueError()})
    assert await backfills.step(connection, backfill, instants[1:], is_last=True) == ("open", 1, 1)
    await flow.work()
    assert await backfills.step(connection, backfill, [], is_last=True) == ("done", 0, 0)

    assert [await flow.state(run) for run in await runs(connection)] == [end, "succeeded"]
    counted = await backfills.row(connection, backfill)
    good = 2 if end == "succeeded" else 1
    assert (counted["created"], counted["succeeded"], counted["failed"]) == (2, good, 2 - good)
    assert await fires_of_steps(connection) == [fire for fire in instants for _ in STEPS]


async def test_updates_while_a_workflow_executes_are_one_workflow_after_it(
    flow: Stage, connection: Connection
) -> None:
    await assets.judged(connection, spec="on asset sales", handler="workflow:w")
    await assets.begun_before(connection)
    await assets.update(connection, "sales")
    await assets.settle(connection)
    [row] = await assets.due(connection)
    # a second has at most one fire, and this is not that of the next one
    earlier: Any = {**row, "fire_at": row["fire_at"] - minutes(0.5)}
    assert await assets.fire(connection, earlier) == 1
    await begin(flow)
    await assets.update(connection, "sales", "sales")
    await assets.settle(connection)
    assert await assets.due(connection) == []  # it executes, though no node has it

    await flow.work()
    [row] = await assets.due(connection)
    assert await assets.fire(connection, row) == 1
    await begin(flow)
    await flow.work()
    assert [await flow.state(run) for run in await runs(connection)] == ["succeeded"] * 2
    assert await assets.due(connection) == []
    assert flow.began == ["a", "b"] * 2
