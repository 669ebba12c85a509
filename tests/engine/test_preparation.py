"""A run whose last node ended early begins when the database knows that this one prepares it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic

import pytest

from tests.db import control
from tests.db.control import Connect, Connection
from tests.engine.workshop import Workshop
from tests.waiting import until


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=2)
    await workshop.join()
    yield workshop
    await workshop.leave()


async def marks(connection: Connection) -> list[int | None]:
    rows = await connection.fetch("SELECT lost_early FROM pgcron.run ORDER BY id")
    return [row["lost_early"] for row in rows]


async def test_it_is_prepared_when_it_has_a_slot_and_marked_when_it_begins(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 4)
    node = await control.join(connection)
    assert len(await control.claim(connection, node)) == 4
    await control.kill(connection, node)
    await control.reap(connection)

    await workshop.step()

    await until("two have begun", lambda: len(workshop.executor.executing) == 2)
    assert sorted(await marks(connection), key=str) == [1, 1, 2, 2]
    [first, second] = workshop.executor.executing
    workshop.executor.begin(first, monotonic())

    async def is_marked() -> bool:
        query = "SELECT array_agg(id) FROM pgcron.run WHERE started_at IS NOT NULL"
        return bool(await connection.fetchval(query) == [first])

    await until("it is marked", is_marked)
    assert sorted(await marks(connection), key=str) == [1, 1, 2, 2]
    workshop.executor.end(second)
    await workshop.step()
    await until("the next one begins", lambda: len(workshop.executor.executing) == 2)
    assert sorted(await marks(connection), key=str) == [1, 2, 2, 2]


async def test_what_waits_here_is_not_prepared_before_its_slot_is_free(
    workshop: Workshop, connection: Connection
) -> None:
    runs = await control.enqueue(connection, 5)
    node = await control.join(connection)
    await control.claim(connection, node)
    await control.kill(connection, node)
    await control.reap(connection)
    node = await control.join(connection)
    workshop.runner.accept(await control.claim(connection, node))

    await until("two have begun", lambda: len(workshop.executor.executing) == 2)
    assert workshop.runner.waiting == 3
    assert sorted(await marks(connection), key=str) == [1, 1, 1, 2, 2]
    for number in range(5):
        await until("the next one", lambda: bool(workshop.executor.executing))
        workshop.executor.end(next(iter(workshop.executor.executing)))
        assert len(workshop.executor.executing) <= 2, number
    await until("all have ended", lambda: len(workshop.ended) == 5)
    assert sorted(context.run_id for context, _, _ in workshop.ended) == runs


async def test_what_is_prepared_when_the_lease_is_gone_waits_until_it_is_back(
    workshop: Workshop, connection: Connection, another: Connect
) -> None:
    await control.enqueue(connection)
    node = await control.join(connection)
    await control.claim(connection, node)
    await control.kill(connection, node)
    await control.reap(connection)
    claimed = await control.claim(connection, await control.join(connection))
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM pgcron.run FOR UPDATE")
        workshop.runner.accept(claimed)
        assert (workshop.runner.executing, workshop.runner.waiting) == (1, 0)
        workshop.session.is_draining = True  # as without a lease: no handler may begin

    await until("it waits", lambda: workshop.runner.waiting == 1)
    assert workshop.runner.executing == 0
    assert workshop.executor.executing == {}
    workshop.session.is_draining = False
    workshop.runner.start_waiting()

    await until("it has begun", lambda: len(workshop.executor.executing) == 1)
    assert await marks(connection) == [2]


async def test_a_retry_after_a_failure_is_not_written_to(
    workshop: Workshop, connection: Connection
) -> None:
    [run] = await control.enqueue(connection)
    node = await control.join(connection)
    await control.fail(connection, await control.claim(connection, node), retry_after=0.0)
    await control.kill(connection, node)

    await workshop.step()

    await until("it has begun", lambda: run in workshop.executor.executing)
    assert await marks(connection) == [None]
