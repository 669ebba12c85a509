"""The handlers of the tests' nodes. Each leaves evidence."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from pgcron_ha import App, Context
from tests.e2e import evidence

STEP_SECONDS = 0.02

app = App()


@app.handler("work")
async def work(context: Context, seconds: float = 0.0, then: float | None = None) -> None:
    """Takes so long; `then` is for later attempts."""
    with evidence.executing(context):
        await asyncio.sleep(seconds if context.attempt == 1 or then is None else then)


@app.handler("random_work")
async def random_work(context: Context, most: float, fails: float = 0.0) -> None:
    """Takes up to so many seconds, and fails with so much probability."""
    with evidence.executing(context):
        await asyncio.sleep(random.uniform(0, most))
        if random.random() < fails:
            raise RuntimeError("as it was asked to")


@app.handler("wait_for_file")
async def wait_for_file(context: Context, path: str) -> None:
    with evidence.executing(context):
        await _appears(Path(path))


@app.handler("thread_work")
def thread_work(context: Context, seconds: float) -> None:
    """A plain function that asks whether it shall go on."""
    with evidence.executing(context):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            context.check()
            time.sleep(STEP_SECONDS)


@app.handler("finish", on_lease_loss="finish")
async def finish(context: Context, seconds: float, then: float | None = None) -> None:
    await work(context, seconds, then)


@app.handler("finish_in_a_thread", on_lease_loss="finish")
def finish_in_a_thread(context: Context, seconds: float) -> None:
    thread_work(context, seconds)


@app.handler("finish_isolated", on_lease_loss="finish", isolation="process")
def finish_isolated(context: Context, seconds: float) -> None:
    thread_work(context, seconds)


@app.handler("unresponsive")
def unresponsive(context: Context, seconds: float, then: float = 0.0) -> None:
    """A plain function that never asks."""
    with evidence.executing(context):
        time.sleep(seconds if context.attempt == 1 else then)


@app.handler("unresponsive_and_loud")
def unresponsive_and_loud(context: Context, seconds: float) -> None:
    """The first attempt never asks, and leaves evidence as long as it goes on."""
    claim = (context.run_id, context.attempt, context.token)
    with evidence.executing(context):
        end = time.monotonic() + (seconds if context.attempt == 1 else 0)
        while time.monotonic() < end:
            evidence.write(*claim, "tick")
            time.sleep(STEP_SECONDS)


@app.handler("unresponsive_isolated", isolation="process")
def unresponsive_isolated(context: Context, seconds: float) -> None:
    """As `unresponsive_and_loud`, and whatever is raised in it does not end it."""
    claim = (context.run_id, context.attempt, context.token)
    evidence.write(*claim, "start")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            evidence.write(*claim, "tick")
            time.sleep(STEP_SECONDS)
        except BaseException:
            continue


@app.handler("spins")
async def spins(context: Context, seconds: float) -> None:
    """Blocks the handlers' loop and keeps the interpreter busy, as a careless one does."""
    with evidence.executing(context):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass


@app.handler("poison")
async def poison(context: Context) -> None:
    """Takes its node with it."""
    evidence.write(context.run_id, context.attempt, context.token, "start")
    os._exit(13)


@app.handler("fails")
async def fails(context: Context, times: int = 1000) -> None:
    with evidence.executing(context):
        if context.attempt <= times:
            raise RuntimeError(f"attempt {context.attempt} fails")


@app.handler("talks")
async def talks(context: Context, path: str) -> None:
    with evidence.executing(context):
        print("a line on stdout")
        context.log("a line of the log")
        await _appears(Path(path))


async def _appears(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(STEP_SECONDS)
