"""What the benchmarks' nodes offer: handlers that do nothing but count, or say that they began."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import asyncpg

from pgcron_ha import App, Context
from tests.benchmarks.starts import StartRecorder

app = App()
calls = 0
_starts = StartRecorder()
_pool: Any = None
_PAY = "UPDATE public.paid SET times = times + 1 WHERE id = $1"


@app.handler()
async def noop(t: int, k: str) -> None:
    """Count one call."""
    global calls
    calls += 1


@app.handler()
async def three_lines(t: int, k: str) -> None:
    """Say what a job says."""
    for number in range(3):
        print(f"step {number} of 3 of order {k}")


@app.handler()
def noop_in_a_thread(t: int, k: str) -> None:
    """Nothing, where it may block."""


@app.handler(isolation="process")
def noop_apart(t: int, k: str) -> None:
    """Nothing, where it may be killed."""


@app.handler()
async def stamp(context: Context, asked_at: float | None = None) -> None:
    """Record the start; a fire was asked for by its schedule."""
    fire = context.fire_time
    _starts.record(
        context.run_id, context.attempt, fire.timestamp() if fire is not None else asked_at or 0.0
    )


@app.handler()
async def hold(context: Context, seconds: float) -> None:
    """Record the start, and last."""
    _starts.record(context.run_id, context.attempt, 0.0)
    await asyncio.sleep(seconds)


@app.handler()
async def nap(seconds: float) -> None:
    """Last, and leave no record: many do."""
    await asyncio.sleep(seconds)


@app.handler()
async def pay_together(context: Context, t: int, k: str) -> None:
    """One effect in the transaction that completes the run."""
    async with context.connection() as own:
        await own.execute(_PAY, context.run_id % 10_000)


@app.handler()
async def pay_apart(context: Context, t: int, k: str) -> None:
    """The same effect in a transaction of its own."""
    global _pool
    if _pool is None:
        _pool = asyncpg.create_pool(os.environ["PGCRON_HA_DSN"], min_size=0, max_size=16)
    pool = await _pool
    async with pool.acquire() as own, own.transaction():
        await own.execute(_PAY, context.run_id % 10_000)
