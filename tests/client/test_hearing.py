"""Ends of runs are heard, and looked for where they can't be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from pgcron_ha import App
from pgcron_ha.errors import NotFound, Refused
from tests.db import control
from tests.product.cli import granting
from tests.product.client import Notifications, Waiting, waiting
from tests.product.db import Link, overview
from tests.waiting import until

LONG_SINCE = datetime(2026, 1, 1, tzinfo=UTC)


async def awaited(connection: control.Connection) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE awaited")
    return count


@pytest.fixture
async def heard(connection: control.Connection) -> AsyncIterator[list[int]]:
    """What is said of runs that are over."""
    ends: list[int] = []
    channel = await connection.fetchval("SELECT pgcron.end_channel()")

    def hear(*event: Any) -> None:
        if event[3] != "probe":
            ends.append(int(event[3]))

    await connection.add_listener(channel, hear)
    yield ends
    await connection.remove_listener(channel, hear)


async def test_a_result_is_heard_long_before_it_would_be_looked_for(
    database: str, connection: control.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "NET_SECONDS", 3600.0)
    node = await control.join(connection)
    async with App(database) as app:
        run = await app.enqueue(control.HANDLER)
        result = asyncio.ensure_future(run.result())
        await until("somebody is to be told", lambda: awaited(connection))
        await until("nobody looks", lambda: app._waiting_here()._pause > 3000)
        assert app.is_listening
        (claimed,) = await control.claim(connection, node, 1)
        await control.finish(connection, [claimed])

        async with asyncio.timeout(60):
            assert await result == {"fine": True}

        later = asyncio.ensure_future(app.wait(await app.enqueue("later")))
        await until("the next is waited for, too", lambda: awaited(connection))
        await app.cancel_run(await connection.fetchval("SELECT id FROM pgcron.run"))
        assert (await later).outcome == "cancelled"


async def test_only_the_end_of_an_awaited_run_is_told_and_only_when_it_is_committed(
    connection: control.Connection, heard: list[int]
) -> None:
    node = await control.join(connection)
    ids = await control.enqueue(connection, 3, due_at=LONG_SINCE)
    await control.call(connection, "await_runs", run_ids=ids[:2])
    runs = await control.claim(connection, node, 3)

    transaction = connection.transaction()
    await transaction.start()
    await control.finish(connection, runs)
    await transaction.rollback()
    await connection.execute("SELECT 1")
    assert heard == []
    await control.fail(connection, [run for run in runs if run["id"] == ids[0]])
    await control.finish(connection, [run for run in runs if run["id"] != ids[0]])
    await until("the end of the second is heard", lambda: heard)
    assert heard == [ids[1]]

    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    await control.finish(connection, await control.claim(connection, node, 1))
    await until("a retried run is still waited for", lambda: len(heard) == 2)
    assert heard == [ids[1], ids[0]]


async def test_a_run_that_is_locked_or_over_or_about_to_be_claimed_is_not_marked(
    connection: control.Connection, database: str
) -> None:
    first, second = await control.enqueue(connection, 2, due_at=LONG_SINCE)
    async with App(database) as app, app._connection(None) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", first)
        (new,) = await control.enqueue(connection, 1)
        (row,) = await control.call(connection, "await_runs", run_ids=[first, second, new, 999])
        assert (row["ended"], sorted(row["unmarked"])) == ([999], [first, new])
        await transaction.rollback()
        (row,) = await control.call(connection, "await_runs", run_ids=[first, second, 999])
        assert (row["ended"], row["unmarked"]) == ([999], [])


async def test_where_nothing_is_heard_results_are_looked_for_and_it_is_said(
    database: str, connection: control.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler: LISTEN succeeds, and nothing ever comes."""
    monkeypatch.setattr("pgcron_ha.client.waiting.PROBE_SECONDS", 0.05)
    unresponsive = Link(database)

    async def listen_in_vain(*_: object) -> None:
        await unresponsive.rows("channel")

    monkeypatch.setattr(unresponsive, "listen", listen_in_vain)
    node = await control.join(connection)
    async with App(database) as app:
        notifications = Notifications(unresponsive, lambda: app._connection(None), "pgcron")
        looking = Waiting(notifications)
        run = await app.enqueue(control.HANDLER)
        ended = asyncio.ensure_future(looking.until_ended(run, 30))
        await until("it is known", lambda: notifications._is_reported)
        await control.finish(connection, await control.claim(connection, node, 1))
        await ended
        assert not looking.is_listening
        assert await awaited(connection) == 0
        await looking.close()


async def test_a_broken_connection_loses_no_end(
    database: str, connection: control.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "NET_SECONDS", 3600.0)
    node = await control.join(connection)
    async with App(database) as app:
        run = await app.enqueue(control.HANDLER)
        result = asyncio.ensure_future(run.result())
        await until("somebody is to be told", lambda: awaited(connection))
        here = app._waiting_here()
        assert here._notifications is not None
        claimed = await control.claim(connection, node, 1)
        here._notifications._link.drop()
        await control.finish(connection, claimed)

        assert await result == {"fine": True}
        again = asyncio.ensure_future(app.wait(await app.enqueue("x")))
        await until("it listens again", lambda: app.is_listening)
        again.cancel()


@asynccontextmanager
async def role_with(connection: control.Connection, part: str, name: str) -> AsyncIterator[None]:
    await connection.execute(f'CREATE ROLE "{name}" LOGIN')
    await connection.execute(granting(part, name))
    try:
        yield
    finally:
        await connection.execute(f'DROP OWNED BY "{name}"')
        await connection.execute(f'DROP ROLE "{name}"')


async def test_a_producer_waits_for_what_it_enqueued_and_reads_nothing_else(
    database: str, connection: control.Connection
) -> None:
    name = f"producer of {urlsplit(database).path[1:]}"
    node = await control.join(connection)
    (others,) = await control.enqueue(connection, 1)
    await control.finish(connection, await control.claim(connection, node, 1))
    own_dsn = urlsplit(database)._replace(netloc=f"{quote(name)}@").geturl()
    async with role_with(connection, "producer", name), App(own_dsn) as app:
        run = await app.enqueue(control.HANDLER)
        result = asyncio.ensure_future(run.result())
        await until("somebody is to be told", lambda: awaited(connection))
        await control.finish(connection, await control.claim(connection, node, 1))

        assert await result == {"fine": True}
        assert (await run.status()).outcome == "succeeded"
        with pytest.raises(NotFound, match=f"run {others} does not exist"):
            await app.run(others)
        with pytest.raises(NotFound):
            await app.result(others)
        async with app._connection(None) as own:
            with pytest.raises(Refused):
                await overview.run(own, others)
            (living,) = await control.enqueue(connection, 1)
            (row,) = await control.call(own, "await_runs", run_ids=[living])
            assert (row["ended"], await awaited(connection)) == ([living], 0)
