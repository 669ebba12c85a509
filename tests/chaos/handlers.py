"""The handlers of the nodes under chaos. Each leaves evidence: start, ticks, end or stop."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg

from pgcron_ha import App, Context
from tests.chaos import record

TICK_SECONDS = 0.1
FLAKY_SECONDS = 12
BAD_SECONDS = 4
"""Of each so many seconds a flaky handler fails in the first ones."""

FINE_TICK_SECONDS = 0.01
"""Of what is stopped at the last moment: here an overlap would be short."""

LONG_STEPS = 0.06
LONG_STEP_SECONDS = 2.0
"""So many of the steps of workflows last longer by that."""

HUGE_RESULT = 3_000_000

app = App()


@contextmanager
def executing(
    context: Context,
    concurrency_key: str | None = None,
    gate: str | None = None,
    step: str | None = None,
) -> Iterator[Any]:
    """Evidence around what a handler does; yields what writes a tick."""
    claim = {
        "run": context.run_id,
        "attempt": context.attempt,
        "fence": context.fence,
        "token": str(context.token),
        "handler": context.handler,
        "key": context.idempotency_key,
    }
    node = os.environ["CHAOS_NODE"]
    fire = None if context.fire_time is None else context.fire_time.timestamp()
    record.write(
        "start",
        **claim,
        node=node,
        concurrency_key=concurrency_key,
        gate=gate,
        step=step,
        fire=fire,
        schedule=context.schedule,
    )
    try:
        yield lambda: record.write("tick", run=context.run_id, fence=context.fence)
    except BaseException as error:
        why = type(error).__name__
        record.write("stopped", run=context.run_id, fence=context.fence, why=why)
        raise
    record.write("end", run=context.run_id, fence=context.fence)


@app.handler("work")
async def work(
    context: Context,
    seconds: float = 0.0,
    fail: float = 0.0,
    concurrency_key: str | None = None,
    op: int = 0,
    poison: str = "",
) -> None:
    """Takes so long, and fails with so much probability; `poison` only marks its row."""
    with executing(context, concurrency_key) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(TICK_SECONDS, seconds))
            tick()
        if random.random() < fail:
            raise RuntimeError("as it was asked to")


@app.handler("thread")
def thread(
    context: Context, seconds: float, concurrency_key: str | None = None, op: int = 0
) -> None:
    """A plain function that asks whether it shall go on."""
    with executing(context, concurrency_key) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            context.check()
            time.sleep(min(TICK_SECONDS, seconds))
            tick()


@app.handler("unresponsive")
def unresponsive(
    context: Context, seconds: float, concurrency_key: str | None = None, op: int = 0
) -> None:
    """A plain function that never asks: only the end of the process can stop it."""
    with executing(context, concurrency_key) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(FINE_TICK_SECONDS, seconds))
            tick()


@app.handler("stubborn")
async def stubborn(context: Context, seconds: float, op: int = 0) -> None:
    """Goes on when it is cancelled."""
    with executing(context) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                await asyncio.sleep(TICK_SECONDS)
            except asyncio.CancelledError:
                pass
            tick()


@app.handler("spins")
async def spins(context: Context, seconds: float, op: int = 0) -> None:
    """Blocks the handlers' loop and keeps the interpreter busy, as a careless one does."""
    with executing(context):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass


@app.handler("poison")
async def poison(context: Context, op: int = 0) -> None:
    """Takes its node with it."""
    with executing(context):
        os._exit(13)


@app.handler("raises")
async def raises(context: Context, op: int = 0) -> None:
    with executing(context):
        raise ValueError("always \x00 \ud800")


@app.handler("huge")
async def huge(context: Context, op: int = 0) -> str:
    """A result that is too much."""
    with executing(context):
        return "x" * HUGE_RESULT


@app.handler("invalid")
async def invalid(context: Context, op: int = 0) -> dict[str, object]:
    """A result that PostgreSQL's jsonb can't take."""
    with executing(context):
        return {"text": "\x00"}


@app.handler("ledger")
async def ledger(
    context: Context, seconds: float = 0.0, concurrency_key: str | None = None, op: int = 0
) -> None:
    """Writes a row into a table of its own, which may show a double."""
    with executing(context, concurrency_key):
        await asyncio.sleep(seconds)
        connection = await asyncpg.connect(os.environ["PGCRON_HA_DSN"], timeout=2)
        try:
            context.check()
            await connection.execute(
                "INSERT INTO public.effect (key, run, fence) VALUES ($1, $2, $3)",
                *(context.idempotency_key, context.run_id, context.fence),
                timeout=2,
            )
        finally:
            connection.terminate()


@app.handler("gated")
async def gated(context: Context, gate: str, seconds: float = 0.0, op: int = 0) -> None:
    """Takes so long; what it waited for is in its evidence."""
    with executing(context, gate=gate) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(TICK_SECONDS, seconds))
            tick()


@app.handler("flaky")
async def flaky(context: Context, gate: str, op: int = 0) -> None:
    """Fails for seconds on end, as a service that is away."""
    with executing(context, gate=gate):
        if time.time() % FLAKY_SECONDS < BAD_SECONDS:
            raise RuntimeError("the service is away")


@app.handler("transfer")
async def transfer(context: Context, gate: str, op: int = 0) -> None:
    """Its effect is in the transaction that ends the run."""
    with executing(context, gate=gate):
        async with context.connection() as own:
            await own.execute(
                "INSERT INTO public.effect (key, run, fence) VALUES ($1, $2, $3)",
                *(context.idempotency_key, context.run_id, context.fence),
            )


class Hopeless(Exception):
    """Another attempt would not help."""


@app.handler("step")
async def step(
    context: Context,
    step: str,
    seconds: float = 0.0,
    fail: float = 0.0,
    busy: float = 0.0,
    hopeless: bool = False,
    bad: Sequence[int] = (),
    item: int | None = None,
    rows: int = 0,
    op: int = 0,
) -> dict[str, object]:
    """A step of a workflow, or an item of its list: `hopeless`, or only if it is `bad`; `busy`: the
    probability that it asks to be repeated. Some take long.
    """
    if random.random() < LONG_STEPS:
        seconds += LONG_STEP_SECONDS
    with executing(context, step=step) as tick:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(TICK_SECONDS, seconds))
            tick()
        if item in bad if bad else hopeless:
            raise Hopeless("as it was asked to")
        if random.random() < fail:
            raise RuntimeError("as it was asked to")
    return {"rows": 3, "busy": random.random() < busy}


@app.handler("step_transfer")
async def step_transfer(
    context: Context, step: str, seconds: float = 0.0, fail: float = 0.0
) -> None:
    """A step whose effect is in the transaction that ends its run."""
    with executing(context, step=step):
        async with context.connection() as own:
            await own.execute(
                "INSERT INTO public.effect (key, run, fence) VALUES ($1, $2, $3)",
                *(context.idempotency_key, context.run_id, context.fence),
            )
