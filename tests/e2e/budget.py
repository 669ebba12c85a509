"""Handlers of a node that is counted: they take all connections that they may."""

from __future__ import annotations

from pgcron_ha import App, Context

APP = "tests.e2e.budget:app"

app = App()


@app.handler("writes")
async def writes(context: Context) -> None:
    print("a line of the log")
    if context.attempt == 1 and context.run_id % 5 == 0:
        raise ValueError("tried again")


@app.handler("holds")
async def holds(context: Context) -> None:
    async with context.connection() as own:
        await own.execute("SELECT pg_sleep(0.2)")


@app.handler("asks")
async def asks(context: Context) -> None:
    await app.enqueue("writes")
