"""Connections of those who ask rather than work: the command line's one, an App's few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

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
_SETTINGS: Final = (
    f"{POOLED_SETTINGS}; SET {NO_PATH}; SET intervalstyle = 'postgres'; "
    "SET quote_all_identifiers = off; "
    "SET default_transaction_isolation = 'read committed'; "
    "SET statement_timeout = 30000; SET lock_timeout = 10000; "
    "SET idle_in_transaction_session_timeout = 60000; SET idle_session_timeout = 0"
)


async def connect_client(dsn: str) -> Connection:
    """A connection for a few statements; close it. Raises DatabaseUnavailable with a hint."""
    connection = await connect(dsn, timeout=_CONNECT_SECONDS, is_control=False)
    await connection.execute(_settings("pgcron_ha command", was_pooled(dsn)))
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
                min_size=0,
                max_size=MOST_CONNECTIONS,
                init=partial(_prepare, _settings("pgcron_ha client", pooled)),
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


def _settings(title: str, pooled: bool) -> str:
    return f"{session_name(title)}; {POOLED_SETTINGS if pooled else _SETTINGS}"


async def _prepare(settings: str, connection: Any) -> None:
    await prepare_connection(connection, is_control=False)
    await connection.execute(settings)


async def _keep(connection: Any) -> None:
    """Our statements leave nothing behind, and a RESET would undo the settings."""
