"""A node among keys by key and limited queues: what it claims, and when it looks again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic

import pytest

from tests.db import control
from tests.db.control import Connection
from tests.engine.workshop import Workshop

SLOTS = 4
POLL_SECONDS = 60.0


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=SLOTS, poll=POLL_SECONDS)
    await workshop.join()
    yield workshop
    await workshop.leave()


async def finish(workshop: Workshop, connection: Connection, run: int) -> None:
    """The handler stops, and the database knows of it, as a completer does it."""
    context = workshop.executor.executing[run]
    workshop.executor.end(run)
    workshop.dispatcher.ended(workshop.ended)
    await control.finish(connection, [{"id": run, "token": context.token}])  # type: ignore[list-item]
    workshop.runner.forget([context])
    workshop.dispatcher.settled()


async def test_a_node_claims_of_a_key_what_its_slots_allow(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('a', 2)")
    keyed = await control.enqueue(connection, 5, concurrency_key="a")
    plain = await control.enqueue(connection, 9)

    await workshop.step()

    assert sorted(workshop.executor.executing) == sorted(keyed[:2] + plain[:2])
    assert workshop.runner.waiting == 0


async def test_the_next_run_of_a_key_is_claimed_as_soon_as_the_last_one_is_over(
    workshop: Workshop, connection: Connection
) -> None:
    first, second = await control.enqueue(connection, 2, concurrency_key="a")
    await workshop.step()
    assert list(workshop.executor.executing) == [first]

    await finish(workshop, connection, first)
    began = monotonic()
    await workshop.step()

    assert list(workshop.executor.executing) == [second]
    assert monotonic() - began < POLL_SECONDS


@pytest.mark.parametrize(
    ("columns", "limit"),
    [
        ({"concurrency_key": "eu"}, "SELECT pgcron.set_concurrency('eu', NULL, 1000, '1 hour')"),
        ({}, "SELECT pgcron.set_queue('default', NULL, 1000, '1 hour')"),
    ],
)
async def test_what_a_rate_counts_is_never_claimed_ahead(
    workshop: Workshop, connection: Connection, columns: dict[str, str], limit: str
) -> None:
    """Rule 15 of admission: no start is counted for a run that waits here."""
    await control.enqueue(connection, 100, **columns)
    await connection.execute(limit)
    workshop.dispatcher._gated._prefetching.count(10_000, monotonic())

    await workshop.step()

    assert len(workshop.executor.executing) == SLOTS
    assert workshop.runner.waiting == 0


async def test_plain_runs_have_their_turn_beside_a_backlog_of_keys_claimed_ahead(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    await control.enqueue(connection, 400, concurrency_key="a", priority=9)
    plain = set(await control.enqueue(connection, 100, priority=0))
    workshop.dispatcher._gated._prefetching.count(1000, monotonic())
    ended = []

    for _ in range(300):
        await workshop.turn()
        if workshop.executor.executing:
            ended.append(next(iter(workshop.executor.executing)))
            workshop.executor.end(ended[-1])

    assert len(plain & set(ended)) > 50


async def test_a_full_node_asks_for_no_run_of_a_key_until_it_has_room(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    await control.enqueue(connection, 20, concurrency_key="a")
    await workshop.step()
    assert len(workshop.executor.executing) == SLOTS

    pause = await workshop.turn()

    assert pause is not None
    assert pause > POLL_SECONDS / 2


async def test_a_full_key_keeps_no_node_from_being_idle(
    workshop: Workshop, connection: Connection
) -> None:
    """It says that it is idle, so a plain run is noticed at once; and looks again after a poll."""
    await control.enqueue(connection, 9, concurrency_key="a")
    workshop.dispatcher.trust_notifications(True)

    await workshop.step()
    pause = await workshop.dispatcher.run_once()

    assert await connection.fetchval("SELECT is_idle FROM pgcron.node")
    assert pause is not None
    assert 0 < pause <= POLL_SECONDS


async def test_due_runs_of_a_paused_queue_keep_no_node_awake(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.pause_queue('default')")
    await control.enqueue(connection, 9)
    workshop.dispatcher.trust_notifications(True)

    await workshop.step()
    pause = await workshop.dispatcher.run_once()

    assert await connection.fetchval("SELECT is_idle FROM pgcron.node")
    assert pause is not None
    assert pause > POLL_SECONDS


async def test_plain_runs_and_runs_of_keys_take_turns(
    workshop: Workshop, connection: Connection
) -> None:
    """However many of both wait, and however short the plain ones are."""
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    keyed = set(await control.enqueue(connection, 60, concurrency_key="a"))
    await control.enqueue(connection, 2000)
    began: list[int] = []

    for _ in range(40):
        await workshop.dispatcher.run_once()
        for run in list(workshop.executor.executing):
            began.append(run)
            await finish(workshop, connection, run)

    of_keys = sum(1 for run in began if run in keyed)
    assert of_keys >= 20
    assert len(began) - of_keys >= 20


async def test_a_node_walks_over_more_keys_than_one_look_sees(
    workshop: Workshop, connection: Connection
) -> None:
    """Many keys are full; the one that is not is found."""
    other = await control.join(connection)
    keys = [f"key {number:02}" for number in range(60)]
    for key in keys[:-1]:
        await control.enqueue(connection, concurrency_key=key)
    assert len(await control.claim_limited(connection, other, 59, look=100)) == 59
    for key in keys:
        await control.enqueue(connection, concurrency_key=key)

    await workshop.step()

    assert len(workshop.executor.executing) == 1


async def test_a_free_key_is_found_behind_ten_thousand_full_ones(
    workshop: Workshop, connection: Connection
) -> None:
    """Rule 19 of admission: within three passes, each of which takes some 20 to 60 ms."""
    other = await control.join(connection)
    await connection.execute(
        "INSERT INTO pgcron.run (handler, concurrency_key, state, owner, token, fence, claimed_at,"
        " attempt, key_slot) SELECT 'py:work', 'key ' || n, 'running', $1, gen_random_uuid(), n,"
        " now(), 1, 1 FROM generate_series(1, 10000) n",
        other.incarnation,
    )
    await connection.execute(
        "INSERT INTO pgcron.run (handler, concurrency_key) SELECT 'py:work', concurrency_key"
        " FROM pgcron.run"
    )
    await workshop.step()
    [free] = await control.enqueue(connection, concurrency_key="last")

    began = monotonic()
    workshop.dispatcher.wake()
    for _ in range(3):
        await workshop.dispatcher.run_once()

    print(f"{1000 * (monotonic() - began):.0f} ms")
    assert list(workshop.executor.executing) == [free]


async def test_a_limited_queue_is_served_within_its_limit(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 3)")
    await control.enqueue(connection, 5)
    await control.enqueue(connection, 5, delivery="at_most_once")
    ended = 0

    while ended < 10:
        await workshop.step()
        assert 0 < len(workshop.executor.executing) <= 3
        assert workshop.runner.waiting == 0
        await finish(workshop, connection, next(iter(workshop.executor.executing)))
        ended += 1

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0


async def test_a_run_of_a_key_that_is_due_later_is_claimed_when_it_is_due(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.run (handler, concurrency_key, due_at)"
        " VALUES ('py:work', 'a', now() + interval '30 seconds')"
    )
    await workshop.step()
    pause = await workshop.dispatcher.run_once()
    assert pause is not None
    assert 0 < pause <= POLL_SECONDS

    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    workshop.dispatcher.wake()
    await workshop.step()

    assert len(workshop.executor.executing) == 1
