"""What the demo's nodes execute. A program of yours has an `App` like this one.

Each handler works on this machine and on the demo's own database; the backup is a shell template of
the demo's ``pgcron-ha.toml``. Where they write is told by the environment (`places`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from pgcron_ha.client import App
from pgcron_ha.config import load_settings
from pgcron_ha.db import demo
from pgcron_ha.db.clients import Connection, connect_client
from pgcron_ha.demo.places import FOLDER_VARIABLE, PORT_VARIABLE
from pgcron_ha.executors.context import Context

app = App()

TREND_COLUMNS: Final = ("fire_time", "database_bytes", "dumps_bytes", "free_bytes")
# An hour of the trend; the file is read and written as a whole.
_TREND_LINES: Final = 720

# Of the fires of `flaky`, counted since 1970: every third fails once; of 42, which take about two
# minutes, one of the others fails each time.
_FAILS_ONCE: Final = 3
_FAILS_ALWAYS: Final = 42
_FLAKY_SECONDS: Final = 3
_LONGEST_WORD: Final = 100


class ServiceIsDown(Exception):
    """What a job calls does not answer, or not as it should."""


@app.schedule("* * * * * *", overlap="allow")
@app.handler()
def tick(context: Context) -> dict[str, Any]:
    """Every second: nothing but a number, so that its start delay is that of the cluster."""
    return {"second": context.fire_time.second if context.fire_time else None}


@app.schedule("every 3s", retry_base=1, retry_cap=2, max_attempts=3)
@app.handler()
def flaky(context: Context) -> str:
    """Stands for a call to a service that is down now and then; which fires fail is no chance."""
    fire = int(context.fire_time.timestamp()) // _FLAKY_SECONDS if context.fire_time else 1
    if fire % _FAILS_ALWAYS == 1:
        raise ServiceIsDown("no answer, and none will come")
    if fire % _FAILS_ONCE == 0 and context.attempt == 1:
        raise ServiceIsDown("no answer at the first attempt")
    return "answered"


@app.schedule("every 5s")
@app.handler()
async def disk(context: Context) -> dict[str, int]:
    """Measures what the database and its dumps take, and adds a line to ``trend.csv``."""
    folder = _folder()
    async with _database() as (connection, _):
        database_bytes = await demo.database_bytes(connection)
    measured = {
        "database_bytes": database_bytes,
        "dumps_bytes": sum(dump.stat().st_size for dump in (folder / "dumps").glob("*.dump")),
        "free_bytes": shutil.disk_usage(folder).free,
    }
    _add_to_trend(folder / "trend.csv", context.fire_time, measured)
    return measured


@app.schedule("*/15 * * * * *")
@app.handler()
async def analyze(context: Context) -> int:
    """Gives PostgreSQL fresh statistics of our tables; returns how many there are."""
    async with _database() as (connection, schema):
        tables = await demo.tables(connection, schema=schema)
        for number, table in enumerate(tables, start=1):
            context.check()
            await demo.analyze(connection, table)
            context.progress(number, len(tables))
    return len(tables)


@app.schedule("*/10 * * * * *")
@app.handler()
async def report() -> dict[str, int]:
    """Writes what ran in the last ten minutes to ``report.json`` and ``report.txt``."""
    async with _database() as (connection, schema):
        rows = await demo.report(connection, schema=schema)
    lines = [f"{'job':<12} {'outcome':<12} {'runs':>6} {'retries':>8} {'ms':>6}"]
    lines += [
        f"{row['job'][:12]:<12} {row['outcome']:<12} {row['runs']:>6} "
        f"{row['retries']:>8} {row['milliseconds'] or 0:>6}"
        for row in rows
    ]
    _write(_folder() / "report.txt", "\n".join(lines) + "\n")
    _write(_folder() / "report.json", json.dumps(rows, indent=1) + "\n")
    print(f"{sum(row['runs'] for row in rows)} runs in the last ten minutes")
    return {"runs": sum(row["runs"] for row in rows), "lines": len(rows)}


@app.schedule("*/5 * * * * *", retry_base=1, retry_cap=2, max_attempts=3)
@app.handler()
def ready() -> str:
    """Asks the demo's own pages whether they are ready: the database answers, its schema is right.
    Nothing that comes from the database chooses whom it asks.
    """
    connection = HTTPConnection("127.0.0.1", int(os.environ[PORT_VARIABLE]), timeout=5)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        word = answer.read(_LONGEST_WORD).decode().strip()
    finally:
        connection.close()
    print(f"the pages answer {answer.status}: {word}")
    if answer.status != HTTPStatus.OK:
        raise ServiceIsDown(f"the pages are not ready: {answer.status} {word}")
    return word


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
    """For the run that you insert by psql."""
    print(f"hello, {name}")
    return f"hello, {name}"


app.add_schedule("backup", "every 10s", "shell:backup", timeout=timedelta(minutes=1))


async def _take(context: Context, seconds: int) -> str:
    for done in range(1, seconds + 1):
        await asyncio.sleep(1)
        context.progress(done, seconds)
    return f"took {seconds} s"


def _folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


@asynccontextmanager
async def _database() -> AsyncIterator[tuple[Connection, str]]:
    """A connection to the demo's database, and the name of its schema."""
    settings = load_settings()
    connection = await connect_client(settings.required_dsn())
    try:
        yield connection, settings.schema
    finally:
        await connection.close(timeout=5)


def _add_to_trend(path: Path, at: datetime | None, measured: dict[str, int]) -> None:
    known = path.read_text().splitlines()[1:] if path.exists() else []
    line = ",".join([f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else "", *map(str, measured.values())])
    # A retry after a crash measures the same fire again.
    kept = [each for each in known if each.partition(",")[0] != line.partition(",")[0]]
    _write(path, "\n".join([",".join(TREND_COLUMNS), *kept[-_TREND_LINES:], line]) + "\n")


def _write(path: Path, text: str) -> None:
    """The whole file or none of it: another node may be killed at any moment."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.write_text(text)
    unfinished.replace(path)
