"""Sessions of the tests themselves, which say and read the same on every database."""

from __future__ import annotations

from typing import Final

import asyncpg

USUAL: Final = (
    "SET default_transaction_isolation = 'read committed'; SET timezone = 'UTC';"
    " SET datestyle = 'ISO'; SET intervalstyle = 'postgres';"
    " SET statement_timeout = 0; SET lock_timeout = 0"
)
"""For a session whose transactions, or the sentences that it gets, are not what a test is about."""


async def own_session(dsn: str) -> asyncpg.Connection[asyncpg.Record]:
    """A connection of a test's own, whatever the defaults of the server."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(dsn)
    await connection.execute(USUAL)
    return connection
