"""Destinations on a test's service, and runs that call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pgcron_ha.executors.contract.base import Context, Outcome
from tests.executors.http.service import Service
from tests.executors.running import NOWHERE, Record, context
from tests.product.config import HttpDestination, read_tables
from tests.product.db import Link
from tests.product.executors import CallbackDesk, HttpExecutor


def destination(url: str, name: str = "d", **table: Any) -> HttpDestination:
    """As it is read from a file; private addresses are allowed unless the test says otherwise."""
    table = {"url": url, "allow_private": True, **table}
    found, problems = read_tables("http", {name: table}, HttpDestination)
    assert problems == []
    return found[name]


def no_desk(dsn: str = NOWHERE) -> CallbackDesk:
    """For destinations that do not call back; the run before is found in this database."""
    return CallbackDesk(Link(dsn), "", 60)


@asynccontextmanager
async def executor(
    *offered: HttpDestination, dsn: str = NOWHERE
) -> AsyncIterator[tuple[HttpExecutor, Record]]:
    record = Record()
    place = record.services(16, directory=Path())
    running = HttpExecutor({each.name: each for each in offered}, place, no_desk(dsn))
    try:
        yield running, record
    finally:
        await running.close(5)


async def call(
    service: Service, path: str = "/", args: Mapping[str, Any] | None = None, **table: Any
) -> tuple[Any, list[str]]:
    """The outcome of one run, and its log."""
    return await call_url(service.url + path, args, **table)


async def call_url(
    url: str, args: Mapping[str, Any] | None = None, **table: Any
) -> tuple[Any, list[str]]:
    run = context(1, "http:d", dict(args or {}))
    async with executor(destination(url, **table)) as (running, record):
        outcome = await outcome_of(running, record, run)
    return outcome, record.lines_of(run)


async def outcome_of(running: HttpExecutor, record: Record, run: Context) -> Outcome:
    running.start([run])
    return await asyncio.to_thread(record.outcome, run)
