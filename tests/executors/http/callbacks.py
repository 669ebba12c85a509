"""Destinations that call back: real runs in a real database, and where their callbacks go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pgcron_ha.executors.contract.base import Context
from tests.db import control
from tests.db.control import Connection
from tests.executors.http.calls import destination
from tests.executors.http.service import Request, Service
from tests.executors.running import Record
from tests.product.config import Address
from tests.product.db import Link
from tests.product.executors import CallbackDesk, HttpExecutor
from tests.product.web import callback_listener
from tests.waiting import until


@asynccontextmanager
async def served(dsn: str) -> AsyncIterator[str]:
    """Where callbacks are taken; its address without the last slash."""
    server = callback_listener(dsn, Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    try:
        yield server.url.rstrip("/")
    finally:
        server.stop()
        await running


@asynccontextmanager
async def called_back(
    dsn: str, public_url: str, service: Service, **table: Any
) -> AsyncIterator[tuple[HttpExecutor, Record]]:
    """An executor of one destination "d" on this service, which calls back."""
    record = Record()
    place = record.services(16, directory=Path())
    offered = destination(service.url + "/", completion="callback", **table)
    desk = CallbackDesk(Link(dsn), public_url, 0.1)
    running = HttpExecutor({"d": offered}, place, desk)
    try:
        yield running, record
    finally:
        await running.close(5)


async def claimed(connection: Connection, **columns: Any) -> Context:
    """A run of the destination, claimed by a node that the test is."""
    node = await control.join(connection, handlers=("http:d",))
    await control.enqueue(connection, handler="http:d", **columns)
    (row,) = await control.claim(connection, node)
    run = await control.run_row(connection, row["id"])
    assert run is not None
    return Context(
        run["id"], row["uuid"], "http:d", run["args"], run["attempt"], 5, "default", 5, None, None,
        run["token"], run["fence"],
    )  # fmt: skip


@dataclass(frozen=True)
class Caller:
    """A service that calls back."""

    url: str
    token: str

    async def say(self, status: str, **more: Any) -> httpx.Response:
        return await self.send(json.dumps({"status": status, **more}))

    async def send(self, body: str | bytes, **headers: str) -> httpx.Response:
        given = {"Authorization": f"Bearer {self.token}", **headers}
        async with httpx.AsyncClient(timeout=20) as client:
            return await client.post(self.url, content=body, headers=given)


def caller_of(request: Request) -> Caller:
    """Who got this request."""
    headers = request.headers
    return Caller(headers["pgcron-callback-url"], headers["pgcron-callback-token"])


async def caller(service: Service, number: int = 1, deadline: float = 30) -> Caller:
    """Who gets the service's request of that number, when it has come."""
    await until("the service is called", lambda: len(service.requests) >= number, deadline=deadline)
    return caller_of(service.requests[number - 1])
