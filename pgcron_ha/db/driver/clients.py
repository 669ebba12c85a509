"""Connections of clients: one for the command line, a few for an App."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

from pgcron_ha.db.driver.connecting import connect
from pgcron_ha.db.driver.pool import Pool
from pgcron_ha.db.driver.pooling import ClientConnection
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
    """A small pool for each event loop: an App serves a program's and its handlers'."""

    def __init__(self) -> None:
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()

    @asynccontextmanager
    async def connection(self, dsn: str) -> AsyncIterator[Any]:
        """A connection of this loop's pool, made when none is free. Raises DatabaseUnavailable."""
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = Pool(
                lambda: dsn, MOST_CONNECTIONS, CLIENT, connection_class=ClientConnection
            )
        pool = self._pools[loop]
        connection = await pool.acquire(_CONNECT_SECONDS)
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def close(self) -> None:
        """Close what was opened in this event loop; the next use opens it again."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close(_CLOSE_SECONDS)
