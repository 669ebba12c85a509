"""Connections that can only read: what a page asks is one short read-only transaction.

Everything a page sees in it is of one moment, and no page can write, whatever its code does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import asyncpg

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import prepare_connection, reaching
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.pools import close_pool, make_pool
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.db.driver.session_settings import PAGE_TIMEOUT_MS, PAGES
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import DatabaseUnavailable

Connection: TypeAlias = asyncpg.Connection

# Views are read together by all who look, so a few connections serve any number of them.
MOST_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 3.0
# After the server should have stopped a statement, the connection is taken for dead.
_ANSWER_SECONDS: Final = PAGE_TIMEOUT_MS / 1000 + 2
_CLOSE_SECONDS: Final = 3.0
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PoolUse(NamedTuple):
    """How many connections are open, and how many of them nobody uses."""

    open: int
    idle: int


class ReadPool:
    """Read-only transactions on a few connections, which are made when they are needed.

    Belongs to the event loop of its first use.
    """

    def __init__(self, dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
        self._dsn = dsn
        self._schema = schema
        self._pool: asyncpg.Pool | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A connection inside a read-only transaction that sees one moment.

        Raises DatabaseUnavailable, SchemaError (the schema is missing or too old), Conflict (a
        statement took too long), and what else `pgcron_ha.db.driver.answers` makes of an error
        inside.
        """
        with reaching():
            pool = await self._opened()
            connection = await self._acquired(pool)
        try:
            with answers():
                await self._begin(connection)
                yield connection
                await connection.execute("ROLLBACK")  # there is nothing to commit
        except BaseException:
            await self._give_up(connection)
            raise
        finally:
            await pool.release(connection, timeout=_CLOSE_SECONDS)

    def use(self) -> PoolUse:
        """How the connections are used right now."""
        if self._pool is None:
            return PoolUse(0, 0)
        return PoolUse(self._pool.get_size(), self._pool.get_idle_size())

    async def close(self) -> None:
        """Close every connection; the next use opens them again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await close_pool(pool, _CLOSE_SECONDS)

    async def _opened(self) -> asyncpg.Pool:
        if self._pool is None:
            made = await make_pool(
                self._dsn,
                MOST_CONNECTIONS,
                prepare=self._prepare,
                seconds=_CONNECT_SECONDS,
                command_timeout=_ANSWER_SECONDS,
            )
            if self._pool is None:  # nobody else has made it meanwhile
                self._pool = made
        return self._pool

    async def _acquired(self, pool: asyncpg.Pool) -> Any:
        try:
            return await pool.acquire(timeout=_ANSWER_SECONDS)
        except TimeoutError as error:
            raise DatabaseUnavailable(
                "the database does not answer",
                f"No connection was free or could be made within {_ANSWER_SECONDS:g} s.",
                "Try again in a moment.",
            ) from error

    async def _prepare(self, connection: Any) -> None:
        await prepare_connection(connection, PAGES, is_pooled=was_pooled(self._dsn))
        await self._begin(connection)
        await require_revision(connection, self._schema)
        await connection.execute("ROLLBACK")

    async def _begin(self, connection: Any) -> None:
        begin = _BEGIN
        if was_pooled(self._dsn):
            begin += "; " + PAGES.in_transaction(connection.get_server_version().major)
        await connection.execute(begin)

    async def _give_up(self, connection: Any) -> None:
        """Ends the transaction of a connection that goes back to the pool after an error."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await connection.execute("ROLLBACK")
        except Exception:
            connection.terminate()
