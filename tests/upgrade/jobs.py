"""The handlers of nodes of either version: they use only what both have."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pgcron_ha import App, Context
from tests.e2e import evidence

app = App()


@app.handler("job")
async def job(context: Context, fails: int = 0) -> None:
    with evidence.executing(context):
        await asyncio.sleep(0.02)
        if context.attempt <= fails:
            raise RuntimeError(f"attempt {context.attempt} fails")


@app.handler("lasts")
async def lasts(context: Context, path: str) -> None:
    with evidence.executing(context):
        while not Path(path).exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.02)
