"""Connections of those who ask rather than work: the command line's one, an App's few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

from pgcron_ha.db.client_connection import ClientConnection
from pgcron_ha.db.connecting import (
    NO_PATH,
    POOLED_SETTINGS,
    connect,
    prepare_connection,
    session_name,
    unavailable,
)
from pgcron_ha.db.hosts import CONNECT
from pgcron_ha.db.pooling import cache_options, is_pooled, was_pooled
from pgcron_ha.errors import PgcronError

Connection: TypeAlias = asyncpg.Connection

# Each enqueue holds one for a millisecond; more would only queue in the database.
MOST_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 10
_CLOSE_SECONDS: Final = 5
# An edit of a schedule needs READ COMMITTED to be whole at once.
_VALUES: Final = (
    NO_PATH,
    "intervalstyle = 'postgres'",
    "quote_all_identifiers = off",
    "statement_timeout = 30000",
    "lock_timeout = 10000",
    "idle_in_transaction_session_timeout = 60000",
)
_SETTINGS: Final = "; ".join(
    (
        POOLED_SETTINGS,
        *(f"SET {value}" for value in _VALUES),
        "SET default_transaction_isolation = 'read committed'",
        "SET idle_session_timeout = 0",
    )
)
_IN_TRANSACTION: Final = "; ".join(f"SET LOCAL {value}" for value in _VALUES)


async def connect_client(dsn: str) -> Connection:
    """A connection for a few statements; close it. Raises DatabaseUnavailable with a hint."""
    connection = await connect(dsn, timeout=_CONNECT_SECONDS, is_control=False)
    await _settle(connection, "pgcron_ha command", was_pooled(dsn))
    return connection


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
        try:
            acquired = await pool.acquire(timeout=_CONNECT_SECONDS)
        except PgcronError:
            raise
        except Exception as error:
            raise unavailable(error) from error
        try:
            yield acquired
        finally:
            await pool.release(acquired)

    async def close(self) -> None:
        """Close what was opened in this event loop; the next use opens it again."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), _CLOSE_SECONDS)
            except TimeoutError:
                pool.terminate()

    async def _pool(self, dsn: str) -> asyncpg.Pool:
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is None:
            try:
                pooled = await is_pooled(dsn, timeout=_CONNECT_SECONDS)
            except PgcronError:
                raise
            except Exception as error:
                raise unavailable(error) from error
            if loop in self._pools:
                return self._pools[loop]
            found = asyncpg.create_pool(
                dsn,
                connect=CONNECT,
                connection_class=ClientConnection,
                min_size=0,
                max_size=MOST_CONNECTIONS,
                init=partial(_prepare, pooled),
                reset=_keep,
                **cache_options(pooled),
            )
            self._pools[loop] = found
            try:
                await found  # connects to nothing yet, so nobody gets in between
            except Exception as error:
                del self._pools[loop]
                raise unavailable(error) from error
        return found


async def _settle(connection: Any, title: str, pooled: bool) -> None:
    settings = POOLED_SETTINGS if pooled else _SETTINGS
    await connection.execute(f"{session_name(title)}; {settings}")
    if pooled:
        connection.begin_with(_IN_TRANSACTION)


async def _prepare(pooled: bool, connection: Any) -> None:
    await prepare_connection(connection, is_control=False)
    await _settle(connection, "pgcron_ha client", pooled)


async def _keep(connection: Any) -> None:
    """Our statements leave nothing behind, and a RESET would undo the settings."""
