"""What the conformance suite executes in processes of their own, and on a `TaskExecutor`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from pgcron_ha import App, Context
from pgcron_ha.executors.contract.base import (
    MAX_RESULT_BYTES,
    SUCCEEDED,
    ExecutorServices,
    Failed,
    Outcome,
)
from pgcron_ha.executors.contract.tasks import TaskExecutor
from tests.product.executors import MAX_LINE_BYTES, MAX_LINES

FOLDER = "PGCRON_TEST_FOLDER"

app = App()


@app.handler("succeeds", isolation="process")
async def succeeds() -> None:
    pass


@app.handler("fails", isolation="process")
def fails() -> None:
    raise ValueError("as it should")


@app.handler("lasts", isolation="process")
async def lasts(ctx: Context) -> None:
    file = Path(os.environ[FOLDER], str(ctx.run_id))
    file.write_text(str(os.getpid()))
    try:
        while True:
            ctx.check()
            await asyncio.sleep(0.01)
    finally:
        file.with_suffix(".ended").touch()


@app.handler("insists", isolation="process")
def insists(ctx: Context) -> None:
    Path(os.environ[FOLDER], str(ctx.run_id)).write_text(str(os.getpid()))
    while True:
        time.sleep(1)


@app.handler("talks", isolation="process")
def talks() -> None:
    print("x" * (MAX_LINE_BYTES + 1))
    print("\n".join(["a\0b"] * (MAX_LINES + 5)))


@app.handler("returns_much", isolation="process")
def returns_much() -> str:
    return "x" * MAX_RESULT_BYTES


class Tasks(TaskExecutor):
    """``insists`` swallows every cancellation."""

    def __init__(self, executor_services: ExecutorServices) -> None:
        self.at_work: set[int] = set()
        names = ("succeeds", "fails", "lasts", "insists", "talks")
        super().__init__("tasks", [f"tasks:{name}" for name in names], executor_services)

    async def execute(self, context: Context) -> Outcome:
        if context.args:
            return Failed("InvalidInput", "no args are taken", retry=False)
        what = context.handler.removeprefix("tasks:")
        if what == "talks":
            context.log("x" * (MAX_LINE_BYTES + 1) + "\n" + "a\0b\n" * (MAX_LINES + 5))
        if what in ("lasts", "insists"):
            self.at_work.add(context.run_id)
            try:
                await self._last(insists=what == "insists")
            finally:
                self.at_work.discard(context.run_id)
        return Failed("Bad", "as it should") if what == "fails" else SUCCEEDED

    async def _last(self, *, insists: bool) -> None:
        while True:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                if not insists:
                    raise
