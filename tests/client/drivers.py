"""A caller's own connection, in each kind that `conn` may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import psycopg
import sqlalchemy.ext.asyncio as alchemy
from psycopg.rows import dict_row


@dataclass
class Caller:
    """A connection within a transaction that has not ended."""

    connection: Any
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


Open = Callable[[str], AbstractAsyncContextManager[Caller]]

# psycopg itself reads a timestamp with a zone in this style only.
READABLE = "-c datestyle=ISO"


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(dsn)
    # A codec of the caller's must not change what is stored.
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=lambda value: f'["{value}"]', decoder=str
    )
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def asyncpg_pool_connection(dsn: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(dsn, min_size=0) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, transaction.commit, transaction.rollback)


@asynccontextmanager
async def psycopg_connection(dsn: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(
        dsn, row_factory=dict_row, options=READABLE
    ) as connection:
        yield Caller(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def sqlalchemy_connection(dsn: str) -> AsyncIterator[Caller]:
    async with _engine("asyncpg", dsn) as engine, engine.connect() as connection:
        yield Caller(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def sqlalchemy_connection_by_psycopg(dsn: str) -> AsyncIterator[Caller]:
    async with _engine("psycopg", dsn) as engine, engine.connect() as connection:
        yield Caller(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def sqlalchemy_session(dsn: str) -> AsyncIterator[Caller]:
    async with _engine("asyncpg", dsn) as engine, alchemy.AsyncSession(engine) as session:
        yield Caller(session, session.commit, session.rollback)


KINDS: dict[str, Open] = {
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_pool_connection,
    "psycopg": psycopg_connection,
    "sqlalchemy-asyncpg": sqlalchemy_connection,
    "sqlalchemy-psycopg": sqlalchemy_connection_by_psycopg,
    "sqlalchemy-session": sqlalchemy_session,
}


@asynccontextmanager
async def _engine(driver: str, dsn: str) -> AsyncIterator[alchemy.AsyncEngine]:
    creator: Any = asyncpg.connect
    if driver == "psycopg":
        creator = partial(psycopg.AsyncConnection.connect, options=READABLE)
    engine = alchemy.create_async_engine(
        f"postgresql+{driver}://", async_creator=lambda: creator(dsn)
    )
    try:
        yield engine
    finally:
        await engine.dispose()
