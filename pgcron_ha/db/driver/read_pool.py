"""Connections that can only read: a page reads in one short read-only transaction.

Everything a page sees in it is of one moment, and no page can write, whatever its code does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import asyncpg

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.pool import Pool, PoolUse, cut
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.db.driver.session_settings import PAGE_TIMEOUT_MS, PAGES
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA

Connection: TypeAlias = asyncpg.Connection

# Clients share the result of a view, so a few connections serve any number of them.
MOST_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 3.0
# After the server should have stopped a statement, the connection is taken for dead.
_ANSWER_SECONDS: Final = PAGE_TIMEOUT_MS / 1000 + 2
_CLOSE_SECONDS: Final = 3.0
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class ReadPool:
    """Read-only transactions on a few connections, which are made when they are needed.

    Belongs to the event loop of its first use.
    """

    def __init__(self, dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
        self._schema = schema
        self._pool = Pool(
            lambda: dsn,
            MOST_CONNECTIONS,
            PAGES,
            self._check,
            seconds=_CONNECT_SECONDS,
            command_timeout=_ANSWER_SECONDS,
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A connection inside a read-only transaction that sees one moment.

        Raises DatabaseUnavailable, SchemaError (the schema is missing or too old), Conflict (a
        statement took too long), and what else `pgcron_ha.db.driver.answers` makes of an error
        inside.
        """
        connection = await self._pool.acquire(_ANSWER_SECONDS)
        try:
            with answers():
                await self._begin(connection)
                yield connection
                await connection.execute("ROLLBACK")  # there is nothing to commit
        except BaseException:
            await _give_up(connection)
            raise
        finally:
            await self._pool.release(connection)

    def use(self) -> PoolUse:
        """How the connections are used right now."""
        return self._pool.use()

    async def close(self) -> None:
        """Close every connection; the next use opens them again."""
        await self._pool.close(_CLOSE_SECONDS)

    async def _check(self, connection: Any) -> None:
        await self._begin(connection)
        await require_revision(connection, self._schema)
        await connection.execute("ROLLBACK")

    async def _begin(self, connection: Any) -> None:
        await connection.execute(_BEGIN + self._pool.transaction_settings(connection))


async def _give_up(connection: Any) -> None:
    """Ends the transaction of a connection that goes back to the pool after an error."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await connection.execute("ROLLBACK")
    except Exception:
        cut(connection)
