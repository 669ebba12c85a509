"""A node among runs that take several of its slots: never more than it has, and nobody starves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from pgcron_ha.executors.contract.base import StopReason
from tests.db import control
from tests.db.control import Connect, Connection
from tests.engine.by_hand import rows
from tests.engine.workshop import Workshop
from tests.waiting import until

SLOTS = 4


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=SLOTS)
    await workshop.join()
    yield workshop
    await workshop.leave()


async def heavy(connection: Connection, weight: int, count: int = 1) -> list[int]:
    """Due for a minute: nodes have looked for room long enough."""
    due = datetime.now(UTC) - timedelta(minutes=1)
    concurrency_key = f"*weight {weight}"
    return await control.enqueue(
        connection, count, weight=weight, concurrency_key=concurrency_key, due_at=due
    )


async def finish(workshop: Workshop, connection: Connection, run: int) -> None:
    """The handler stops, and the database knows of it."""
    context = workshop.executor.executing[run]
    workshop.executor.end(run)
    workshop.dispatcher.ended(workshop.ended)
    await control.finish(connection, [{"id": run, "token": context.token}])  # type: ignore[list-item]
    workshop.runner.forget([context])
    workshop.dispatcher.settled()


def weight_executing(workshop: Workshop, heavy_runs: list[int], weight: int) -> int:
    return sum(weight if run in heavy_runs else 1 for run in workshop.executor.executing)


@pytest.mark.parametrize("weight", [2, 3, 4])
async def test_a_flow_of_light_runs_and_heavy_ones_get_their_turns(
    workshop: Workshop, connection: Connection, weight: int
) -> None:
    """However many of both wait; and never does more weight execute than there are slots."""
    heavy_runs = await heavy(connection, weight, 40)
    await control.enqueue(connection, 3000)
    began: set[int] = set()

    for _ in range(120):
        await workshop.dispatcher.run_once()
        executing = list(workshop.executor.executing)
        began.update(executing)
        assert weight_executing(workshop, heavy_runs, weight) <= SLOTS
        assert workshop.runner.executing == weight_executing(workshop, heavy_runs, weight)
        for run in executing[:1]:  # one after the other, so that slots get free one by one
            await finish(workshop, connection, run)

    of_heavy = len(began & set(heavy_runs))
    assert of_heavy >= 4
    assert len(began) - of_heavy >= 16


async def test_a_node_that_awaits_a_heavy_run_claims_it_when_there_is_room(
    workshop: Workshop, connection: Connection
) -> None:
    """It takes its turn after those that came to a slot before it, and then lets nobody pass."""
    await control.enqueue(connection, SLOTS)
    await workshop.step()
    [run] = await heavy(connection, SLOTS)
    await control.enqueue(connection, 3000)
    ended = 0

    while run not in workshop.executor.executing:
        await finish(workshop, connection, min(workshop.executor.executing))
        ended += 1
        assert ended < 2000
        await workshop.step()

    assert list(workshop.executor.executing) == [run]
    assert workshop.runner.free_slots == 0


async def test_a_node_whose_awaited_run_is_somebody_elses_goes_on_at_once(
    workshop: Workshop, connection: Connection
) -> None:
    light = await control.enqueue(connection, SLOTS)
    await workshop.step()
    [run] = await heavy(connection, SLOTS)
    more = await control.enqueue(connection, 3)
    await workshop.step()
    await finish(workshop, connection, light[0])
    await workshop.step()
    other = await control.join(connection)

    [taken] = await control.claim_limited(connection, other, SLOTS)
    assert taken["id"] == run
    await finish(workshop, connection, light[1])
    await workshop.step()

    assert sorted(workshop.executor.executing) == [*light[2:], *more[:2]]


async def test_a_run_of_a_handler_that_takes_several_slots_here_is_weighed(
    database: str, connection: Connection
) -> None:
    workshop = Workshop(database, slots=SLOTS, weights={"py:work": 3})
    await workshop.join()
    runs = await control.enqueue(connection, 2)

    await workshop.step()

    assert list(workshop.executor.executing) == runs[:1]
    assert workshop.runner.executing == 3
    stored = await connection.fetch(
        "SELECT weight, concurrency_key, attempt FROM pgcron.run ORDER BY id"
    )
    assert [tuple(row) for row in stored] == [(3, "*weight 3", 1), (3, "*weight 3", 0)]
    await workshop.leave()


async def test_claimed_runs_are_held_before_others_of_the_claim_are_given_back(
    database: str, connection: Connection, another: Connect
) -> None:
    """Rule 17 of admission: until then nobody knows that they are this node's."""
    workshop = Workshop(database, slots=SLOTS, weights={"py:heavy": 3})
    await workshop.join()
    incarnation = workshop.session.incarnation
    assert incarnation is not None
    await control.enqueue(connection)
    await control.enqueue(connection, handler="py:heavy")
    claimer = control.Node(incarnation, ["py:work", "py:heavy"], ["default"])
    light, wrong = claimed = await control.claim(connection, claimer)
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", wrong["id"])
        taking = asyncio.create_task(
            workshop.dispatcher._acceptance.take(list(claimed), incarnation)
        )
        await until("it is held", lambda: workshop.runner.holds(light["id"]))
        assert not taking.done()
    await taking

    assert list(workshop.executor.executing) == [light["id"]]
    row = await control.run_row(connection, wrong["id"])
    assert row is not None
    assert (row["state"], row["weight"]) == ("ready", 3)
    await workshop.leave()


async def test_what_waits_for_several_slots_lets_nobody_overtake(workshop: Workshop) -> None:
    """And its slots are free when it has stopped, the last of them when its end was fed."""
    runner, executor = workshop.runner, workshop.executor
    runner.accept(rows(1, 2, 3))
    runner.accept(rows(4), weights={4: 3})
    runner.accept(rows(5, 6))
    assert runner.waiting == 5

    executor.end(1)
    assert (sorted(executor.executing), runner.executing) == ([2, 3], 2)
    executor.end(2)
    await until("it has begun", lambda: sorted(executor.executing) == [3, 4])
    assert runner.free_slots == 0

    executor.end(4)
    await until("the others have begun", lambda: sorted(executor.executing) == [3, 5, 6])
    assert (runner.executing, runner.waiting) == (3, 0)


async def test_what_waits_for_several_slots_does_not_begin_without_a_lease(
    workshop: Workshop,
) -> None:
    runner, executor = workshop.runner, workshop.executor
    runner.accept(rows(1, 2))
    runner.accept(rows(3), weights={3: 3})
    workshop.session.is_draining = True  # as without a lease: no handler may begin

    executor.end(1)
    executor.end(2)
    await until("both have ended", lambda: len(workshop.ended) == 2)
    assert (runner.executing, runner.waiting) == (0, 3)

    workshop.session.is_draining = False
    runner.start_waiting()
    assert list(executor.executing) == [3]


async def test_what_waits_for_several_slots_can_be_stopped_and_given_back(
    workshop: Workshop,
) -> None:
    runner, executor = workshop.runner, workshop.executor
    runner.accept(rows(1))
    runner.accept(rows(2, 3), weights={2: 4, 3: 2})

    runner.stop(2, StopReason.CANCELLED)
    await until("it has ended", lambda: [c.run_id for c, _, _ in workshop.ended] == [2])
    assert [context.run_id for context in runner.take_waiting()] == [3]
    assert (runner.executing, runner.waiting) == (1, 0)
    assert list(executor.executing) == [1]


async def test_what_waited_behind_a_heavy_run_that_is_given_back_begins(workshop: Workshop) -> None:
    runner, executor = workshop.runner, workshop.executor
    runner.accept(rows(1, 2))
    runner.accept(rows(3), weights={3: SLOTS})
    kept = rows(4, 5)
    for row in kept:
        row["handler"] = "py:kept"
    runner.accept(kept)

    assert [context.run_id for context in runner.take_waiting({"py:kept"})] == [3]
    assert sorted(executor.executing) == [1, 2, 4, 5]
    assert (runner.executing, runner.waiting) == (SLOTS, 0)
