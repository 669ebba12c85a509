"""What the benchmarks' nodes offer: handlers that do nothing but count, or say that they began."""

from __future__ import annotations

import asyncio

from pgcron_ha import App
from pgcron_ha.executors.context import Context
from tests.benchmarks.starts import StartRecorder

app = App()
calls = 0
_starts = StartRecorder()


@app.handler()
async def noop(t: int, k: str) -> None:
    """Count one call."""
    global calls
    calls += 1


@app.handler()
async def stamp(context: Context, asked_at: float | None = None) -> None:
    """Record the start; a fire was asked for by its schedule."""
    fire = context.fire_time
    _starts.record(
        context.run_id,
        context.attempt,
        fire.timestamp() if fire is not None else asked_at or 0.0,
    )


@app.handler()
async def hold(context: Context, seconds: float) -> None:
    """Record the start, and last."""
    _starts.record(context.run_id, context.attempt, 0.0)
    await asyncio.sleep(seconds)
