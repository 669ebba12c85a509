"""What benchmarks begin with: the same rows in vacuumed tables, a checkpoint behind, a node that
has joined.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from tests.benchmarks.bare_loop import TABLE
from tests.benchmarks.node_process import NodeProcess
from tests.sessions import own_session

Connection = asyncpg.Connection

# A counter and a key of 24 characters, as in the study that found the baseline.
PAYLOAD: Final = "jsonb_build_object('t', number, 'k', lpad(number::text, 24, 'k'))"
_PAUSE_SECONDS: Final = 0.02
_DEADLINE_SECONDS: Final = 600.0


async def fill_bare_table(observer: Connection, runs: int) -> None:
    """A new ``bare_job`` with that many jobs."""
    await observer.execute(TABLE)
    await observer.execute(
        "INSERT INTO public.bare_job (payload)"
        f" SELECT {PAYLOAD} FROM generate_series(1, {runs}) number"
    )
    await settle(observer, "public.bare_job")


async def fill_runs(
    observer: Connection, runs: int, *, keeps_rows: bool = False, concurrency_key: str | None = None
) -> None:
    """That many due runs of ``py:noop`` that nobody may claim yet; nothing else, unless
    `keeps_rows`. `concurrency_key` is that of run ``number``, in SQL.
    """
    await observer.execute("UPDATE pgcron.cluster SET paused_at = now()")
    if not keeps_rows:
        await observer.execute("TRUNCATE pgcron.run, pgcron.history, pgcron.attempt, pgcron.log")
    await insert_runs(observer, runs, concurrency_key)
    await settle(observer, "pgcron.run")


async def insert_runs(observer: Connection, runs: int, concurrency_key: str | None = None) -> None:
    """In one statement."""
    await observer.execute(
        "INSERT INTO pgcron.run (handler, args, concurrency_key)"
        f" SELECT 'py:noop', {PAYLOAD}, {concurrency_key or 'NULL'}"
        f" FROM generate_series(1, {runs}) number"
    )


async def release_runs(observer: Connection) -> None:
    """Claims may begin."""
    await observer.execute("UPDATE pgcron.cluster SET paused_at = NULL")
    await observer.execute("SELECT pg_notify(pgcron.channel(), 'run')")


@asynccontextmanager
async def held_horizon(dsn: str) -> AsyncIterator[None]:
    """A transaction whose snapshot keeps dead rows from being removed, as a forgotten one does."""
    connection = await own_session(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("SELECT pg_current_xact_id()")
            yield
    finally:
        await connection.close()


async def joined(observer: Connection, node: NodeProcess) -> str:
    """Waits until the node offers its handlers; its incarnation."""
    found: list[str] = []

    async def has_joined() -> bool:
        incarnation = await node.incarnation(observer)
        found.extend([incarnation] if incarnation else [])
        return bool(found)

    await until("the node has joined", has_joined)
    return found[0]


async def until(
    what: str, condition: Callable[[], Awaitable[bool]], pause: float = _PAUSE_SECONDS
) -> None:
    """Asks again and again, sparingly. Raises TimeoutError."""
    end = time.monotonic() + _DEADLINE_SECONDS
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_DEADLINE_SECONDS:g} s: {what}")
        await asyncio.sleep(pause)


async def settle(observer: Connection, table: str) -> None:
    """Vacuum and analyze the table, and leave no dirty page to others."""
    await observer.execute(f"VACUUM ANALYZE {table}")
    await observer.execute("CHECKPOINT")
