"""The service that opens the gates of runs, without a look at everything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.db import control
from tests.db.control import Connection
from tests.engine.workshop import Workshop
from tests.product.db import Link, Row
from tests.product.engine import Admission
from tests.product.engine import admission as admissions

GATES = "SELECT coalesce(gate, state) FROM pgcron.run ORDER BY id"


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=2)
    await workshop.join()
    yield workshop
    await workshop.leave()


@pytest.fixture
async def admission(database: str) -> AsyncIterator[Admission]:
    link = Link(database)
    yield Admission(link, lambda: None)
    await link.close()


async def fires(connection: Connection, count: int, gate: str, policy: str = "queue") -> None:
    """Fires of schedule `job`, due a minute after each other in the last days."""
    schedule = await connection.fetchval("SELECT id FROM pgcron.schedule WHERE name = 'job'")
    await connection.execute(
        "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, overlap, due_at,"
        " state, gate) SELECT 'schedule', $1, at, 'py:work', $4, at, 'blocked', $3"
        " FROM generate_series(1, $2::int) n"
        " CROSS JOIN LATERAL (SELECT now() + n * interval '1 min' - interval '3 days') one(at)",
        schedule,
        count,
        gate,
        policy,
    )


async def fires_in_order(connection: Connection, name: str, count: int) -> list[int]:
    """Due fires of a schedule, each of which needs the success of the one before."""
    schedule = await control.put_schedule(
        connection, name=name, overlap="queue", depends_on_previous=True
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - interval '1 hour' WHERE schedule_id = $1",
        schedule,
    )
    cursor = await control.cursor_of(connection, schedule)
    instants = [cursor["watermark"] + control.minutes(number) for number in range(1, count + 1)]
    assert await control.materialize(connection, cursor, instants) == (1, count)
    rows = await connection.fetch(
        "SELECT id FROM pgcron.run WHERE schedule_id = $1 ORDER BY due_at", schedule
    )
    return [row["id"] for row in rows]


async def gates(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(GATES)]


async def decide_all(admission: Admission) -> None:
    while await admission.run_once() == 0:
        pass


async def test_the_end_of_a_fire_lets_the_next_go_that_depends_on_it(
    workshop: Workshop, connection: Connection
) -> None:
    await fires_in_order(connection, "job", 3)
    await workshop.step()
    [first] = workshop.executor.executing
    assert await gates(connection) == ["running", "previous", "previous"]

    context = workshop.executor.executing[first]
    workshop.executor.end(first)
    row = {"id": first, "token": context.token}
    await control.finish(connection, [row])  # type: ignore[list-item]
    workshop.runner.forget([context])
    workshop.admission.settled(workshop.runner.holds)
    await decide_all(workshop.admission)

    assert await gates(connection) == ["ready", "previous"]


async def test_a_fire_has_its_turn_though_more_than_one_look_meets_wait_longer(
    admission: Admission, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await control.join(connection)
    for number in range(3):
        await fires_in_order(connection, f"stuck-{number}", 2)
    [first, _] = await fires_in_order(connection, "free", 2)
    await decide_all(admission)
    claimed = await control.claim(connection, node, 10)
    await control.finish(connection, [row for row in claimed if row["id"] == first])

    monkeypatch.setattr(admissions, "LOOK", 1)
    admission.look()
    for _ in range(10):
        await admission.run_once()

    assert await gates(connection) == ["running", "previous"] * 3 + ["ready"]


async def test_more_than_one_decision_may_end_is_ended_without_another_look(
    workshop: Workshop, connection: Connection
) -> None:
    schedule = await control.put_schedule(connection, overlap="skip")
    await connection.execute("SELECT pgcron.run_now('job')")
    await workshop.step()
    await fires(connection, 2500, "overlap", "skip")

    workshop.admission.hint([schedule])
    await decide_all(workshop.admission)

    assert await gates(connection) == ["running"]


async def test_what_no_notification_named_is_found_by_the_next_sweep(
    admission: Admission, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "SWEEP_SECONDS", 0.0)
    await control.join(connection)
    await control.put_schedule(connection)
    await admission.run_once()

    await fires(connection, 1, "overlap")
    await admission.run_once()

    assert await gates(connection) == ["ready"]


async def test_a_notification_that_comes_during_a_look_leads_to_another(
    database: str, connection: Connection
) -> None:
    class Slow(Link):
        async def rows(self, name: str, /, **parameters: Any) -> list[Row]:
            found = await super().rows(name, **parameters)
            if name == "look_at_gates" and not await gates(connection):
                await fires(connection, 1, "overlap")
                service.look()
            return found

    await control.join(connection)
    await control.put_schedule(connection)
    link = Slow(database)
    service = Admission(link, lambda: None)

    await service.run_once()
    pause = await service.run_once()
    await link.close()

    assert await gates(connection) == ["ready"]
    assert pause is not None


@pytest.mark.parametrize("held", ["breaker", "no_node"])
async def test_a_parked_run_that_cannot_be_let_go_ends_dead_and_the_others_are_let_go(
    admission: Admission, connection: Connection, held: str
) -> None:
    await control.join(connection)
    runs = await control.enqueue(connection, 5)
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = $1", held)
    await connection.execute(
        f"ALTER TABLE pgcron.run ADD CONSTRAINT poison CHECK (id <> {runs[2]}) NOT VALID"
    )

    await decide_all(admission)

    freed = await connection.fetch("SELECT id FROM pgcron.run WHERE gate IS NULL ORDER BY id")
    assert [row["id"] for row in freed] == runs[:2] + runs[3:]
    ended = await control.history_row(connection, runs[2])
    assert ended is not None
    assert ended["outcome"] == "dead"
    assert 'violates check constraint "poison"' in ended["error"]


async def test_a_parked_run_is_let_go_when_somebody_offers_its_handler(
    admission: Admission, connection: Connection
) -> None:
    blocked, other = await control.enqueue(connection, 2)
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'")
    await connection.execute("UPDATE pgcron.run SET handler = 'py:else' WHERE id = $1", other)
    await decide_all(admission)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE gate IS NULL") == 0

    await control.join(connection)
    admission.look()
    await decide_all(admission)

    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE gate IS NULL")
    assert [row["id"] for row in rows] == [blocked]
    assert other != blocked
