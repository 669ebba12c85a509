"""What the demo's nodes execute. A program of yours has an `App` like this one.

The handlers of other kinds (``shell:``, ``sql:``, ``http:``) are in the nodes' configuration file,
``nodes.toml``.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.client.app import App
from pgcron_ha.db.commands import calendars, functions
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.executors.contract.context import Context

app = App()

# Of the fires of `flaky`, counted since 1970: every third fails once; of 42, which take about two
# minutes, one of the others fails each time.
_FAILS_ONCE: Final = 3
_FAILS_ALWAYS: Final = 42
_FLAKY_SECONDS: Final = 3

_HOLIDAYS: Final = """\
yearly 01-01 # New Year's Day
yearly easter-2..easter+1 # Easter
yearly 12-25..12-26 # Christmas
"""


class ServiceIsDown(Exception):
    """What a job calls does not answer."""


@app.schedule("* * * * * *", overlap="allow")
@app.handler()
def tick(context: Context) -> dict[str, Any]:
    """Every second: nothing but a number, so that its start delay is that of the cluster."""
    return {"second": context.fire_time.second if context.fire_time else None}


@app.schedule("every 3s", retry={"base": 1, "cap": 2}, max_attempts=3)
@app.handler()
def flaky(context: Context) -> str:
    """Like a call to a service that is down now and then; which fires fail is not random."""
    fire = int(context.fire_time.timestamp()) // _FLAKY_SECONDS if context.fire_time else 1
    if fire % _FAILS_ALWAYS == 1:
        raise ServiceIsDown("no answer, and none will come")
    if fire % _FAILS_ONCE == 0 and context.attempt == 1:
        raise ServiceIsDown("no answer at the first attempt")
    return "answered"


@app.schedule("every 3s", overlap="skip")
@app.handler()
async def crawl(context: Context) -> str:
    """Takes longer than it has until its next fire, which is skipped."""
    return await _take(context, 5)


@app.schedule("every 4s", overlap="replace")
@app.handler()
async def follow(context: Context) -> str:
    """Never comes to its end: its next fire stops it and takes its place."""
    return await _take(context, 10)


@app.handler()
async def hello(context: Context, name: str = "you") -> str:
    """For the run that you enqueue."""
    print(f"hello, {name}")
    return f"hello, {name}"


app.add_schedule("backup", "every 10s", "shell:backup", timeout=timedelta(minutes=1))
app.add_schedule("report", "*/10 * * * * *", "sql:report")
app.add_schedule("ready", "*/5 * * * * *", "http:ready", retry={"base": 1, "cap": 2})


async def put_examples(connection: Connection, *, schema: str) -> None:
    """A calendar, a schedule that uses it, and one that somebody has paused."""
    owner: dict[str, Any] = {"actor": "demo", "schema": schema}
    await calendars.put_calendar(connection, "holidays", _HOLIDAYS, **owner)
    spec, args = "every 5s\nnot in holidays", '{"name": "all who work"}'
    await functions.put_schedule(connection, "greet", spec, "py:hello", args=args, **owner)
    await functions.put_schedule(connection, "cleanup", "0 4 * * *", "py:hello", **owner)
    note = "until somebody has looked at the old dumps"
    await functions.pause_schedule(connection, "cleanup", note, **owner)


async def _take(context: Context, seconds: int) -> str:
    for done in range(1, seconds + 1):
        await asyncio.sleep(1)
        context.progress(done, seconds)
    return f"took {seconds} s"
