"""The connections of an App: few, used again, and replaced when they broke."""

from __future__ import annotations

import asyncio
import gc
from typing import TypeAlias
from weakref import WeakSet

import asyncpg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import NotFound, WaitTimedOut
from tests.e2e.nursery import is_gone
from tests.waiting import until

Reader: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_OURS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def sessions(reader: Reader) -> list[int]:
    return [row["pid"] for row in await reader.fetch(f"SELECT pid {_OURS} ORDER BY pid")]


async def test_calls_in_turn_use_one_connection_and_closing_leaves_none(
    database: str, connection: Reader
) -> None:
    async with App(dsn=database) as app:
        await app.enqueue("py:report")
        first = await sessions(connection)
        await app.enqueue_many([{"handler": "py:report"}] * 3)
        with pytest.raises(NotFound):
            await app.run(10**9)
        await app.enqueue("py:report")

        assert await sessions(connection) == first
        assert len(first) == 1

    await until("all are gone", lambda: _none(connection))


async def test_calls_at_once_wait_for_few_connections(database: str, connection: Reader) -> None:
    async with App(dsn=database) as app:
        await app.enqueue("py:report")
        runs = await asyncio.gather(*[app.enqueue("py:report") for _ in range(60)])
        runs += await asyncio.gather(*[app.enqueue("py:report") for _ in range(60)])

        assert len(set(runs)) == 120
        assert 1 <= len(await sessions(connection)) <= 4


async def test_a_connection_at_hand_that_the_server_ended_is_replaced(
    database: str, connection: Reader
) -> None:
    async with App(dsn=database) as app:
        await app.enqueue("py:report")
        [backend] = await sessions(connection)
        await connection.fetch(f"SELECT pg_terminate_backend(pid) {_OURS}")
        # Then its end of the connection is closed, too; pg_stat_activity forgets it before.
        await until("its process is gone", lambda: is_gone(backend))
        assert await _none(connection)

        await app.enqueue("py:report")
        await app.enqueue("py:report")

        assert len(await sessions(connection)) == 1


async def test_a_loop_for_each_request_leaves_no_connection(
    database: str, connection: Reader
) -> None:
    app = App(dsn=database)

    async def ask() -> None:
        await asyncio.gather(*[app.enqueue("py:report") for _ in range(5)])

    for _ in range(3):
        await asyncio.to_thread(lambda: asyncio.run(ask()))
        await until("all are gone", lambda: _none(connection))


async def test_an_app_forgets_loops_that_are_closed(database: str) -> None:
    app, loops = App(dsn=database), WeakSet[asyncio.AbstractEventLoop]()

    async def ask() -> None:
        loops.add(asyncio.get_running_loop())
        await app.result(await app.enqueue("py:report"), timeout=0.01)

    for _ in range(3):
        with pytest.raises(WaitTimedOut):
            await asyncio.to_thread(lambda: asyncio.run(ask()))
    gc.collect()

    assert len(loops) <= 1


async def _none(connection: Reader) -> bool:
    return not await sessions(connection)
