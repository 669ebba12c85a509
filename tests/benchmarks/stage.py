"""What every drain begins with: the same rows in a vacuumed table, and a checkpoint behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from tests.benchmarks.bare_loop import TABLE

Connection = asyncpg.Connection

# A counter and a key of 24 characters, as in the study that found the baseline.
_PAYLOAD: Final = "jsonb_build_object('t', number, 'k', lpad(number::text, 24, 'k'))"
_PAUSE_SECONDS: Final = 0.02
_DEADLINE_SECONDS: Final = 300.0


async def fill_bare_table(observer: Connection, runs: int) -> None:
    """A new ``bare_job`` with that many jobs."""
    await observer.execute(TABLE)
    await observer.execute(
        "INSERT INTO public.bare_job (payload)"
        f" SELECT {_PAYLOAD} FROM generate_series(1, {runs}) number"
    )
    await _settle(observer, "public.bare_job")


async def fill_runs(observer: Connection, runs: int) -> None:
    """That many due runs of ``py:noop`` that nobody may claim yet; nothing else."""
    await observer.execute("UPDATE pgcron.cluster SET paused_at = now()")
    await observer.execute("TRUNCATE pgcron.run, pgcron.history, pgcron.attempt, pgcron.log")
    await observer.execute(
        "INSERT INTO pgcron.run (handler, args)"
        f" SELECT 'py:noop', {_PAYLOAD} FROM generate_series(1, {runs}) number"
    )
    await _settle(observer, "pgcron.run")


async def release_runs(observer: Connection) -> None:
    """Claims may begin."""
    await observer.execute("UPDATE pgcron.cluster SET paused_at = NULL")
    await observer.execute("SELECT pg_notify(pgcron.channel(), 'run')")


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    """Asks again and again, sparingly. Raises TimeoutError."""
    end = time.monotonic() + _DEADLINE_SECONDS
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_DEADLINE_SECONDS:g} s: {what}")
        await asyncio.sleep(_PAUSE_SECONDS)


async def _settle(observer: Connection, table: str) -> None:
    await observer.execute(f"VACUUM ANALYZE {table}")
    await observer.execute("CHECKPOINT")
