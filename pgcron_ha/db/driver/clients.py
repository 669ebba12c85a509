"""Connections of those who ask rather than work: the command line's one, an App's few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

from pgcron_ha.db.driver.client_connection import ClientConnection
from pgcron_ha.db.driver.connecting import connect, prepare_connection, reaching
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.pools import close_pool, make_pool
from pgcron_ha.db.driver.session_settings import CLIENT, COMMAND

Connection: TypeAlias = asyncpg.Connection

# Each enqueue holds one for a millisecond; more would only queue in the database.
MOST_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 10
_CLOSE_SECONDS: Final = 5


async def connect_client(dsn: str) -> Connection:
    """A connection for a few statements; close it. Raises DatabaseUnavailable with a hint."""
    return await connect(dsn, COMMAND, timeout=_CONNECT_SECONDS)


@asynccontextmanager
async def tried(connection: Connection, *, keep: bool) -> AsyncIterator[None]:
    """One transaction, committed only to `keep` it: what the database would say to a dry run."""
    transaction = connection.transaction(isolation="read_committed")
    await transaction.start()
    try:
        yield
    except BaseException:
        await transaction.rollback()
        raise
    await (transaction.commit() if keep else transaction.rollback())


class ClientPools:
    """A small pool for each event loop that asks: an App serves a program's and its handlers'."""

    def __init__(self) -> None:
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncpg.Pool] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def connection(self, dsn: str) -> AsyncIterator[Any]:
        """A connection of this loop's pool, made when none is free. Raises DatabaseUnavailable."""
        pool = await self._pool(dsn)
        with reaching():
            acquired = await pool.acquire(timeout=_CONNECT_SECONDS)
        try:
            yield acquired
        finally:
            await pool.release(acquired)

    async def close(self) -> None:
        """Close what was opened in this event loop; the next use opens it again."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await close_pool(pool, _CLOSE_SECONDS)

    async def _pool(self, dsn: str) -> asyncpg.Pool:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            with reaching():
                made = await make_pool(
                    dsn,
                    MOST_CONNECTIONS,
                    prepare=partial(_prepare, dsn),
                    seconds=_CONNECT_SECONDS,
                    connection_class=ClientConnection,
                )
            self._pools.setdefault(loop, made)  # somebody else may have made it meanwhile
        return self._pools[loop]


async def _prepare(dsn: str, connection: Any) -> None:
    await prepare_connection(connection, CLIENT, is_pooled=was_pooled(dsn))
