"""Links to the test's own database, straight and through a proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.db.control import Connect, Connection
from tests.db.gate import Gate
from tests.engine.proxy import Proxy
from tests.engine.workshop import Workshop
from tests.product.db import Link, connect
from tests.product.telemetry import LOGGER, Event
from tests.servers import ThrowAwayServer

MakeLink = Callable[..., Link]


@pytest.fixture(autouse=True)
async def nothing_lives_on() -> AsyncIterator[None]:
    """Ends the sessions that a failing test has left."""
    yield
    for workshop in list(Workshop.living):
        await workshop.leave(None)


@pytest.fixture
async def proxy(server: ThrowAwayServer) -> AsyncIterator[Proxy]:
    """A network between the test and its server."""
    async with Proxy(server.folder / f".s.PGSQL.{server.port}") as proxy:
        yield proxy


@pytest.fixture
async def make_link(database: str) -> AsyncIterator[MakeLink]:
    """Makes links to the test's own database, or to another DSN."""
    made: list[Link] = []

    def make(dsn: str | None = None, **options: Any) -> Link:
        made.append(Link(dsn or database, **options))
        return made[-1]

    yield make
    await asyncio.gather(*(link.close() for link in made))


@pytest.fixture
def link(make_link: MakeLink) -> Link:
    """A link as a node has them."""
    return make_link()


@pytest.fixture
def proxied(make_link: MakeLink, proxy: Proxy, database: str) -> Link:
    """A link whose network the test plays with; a silence of a second is too long for it."""
    return make_link(proxy.dsn(database), answer_seconds=1.0)


@pytest.fixture
async def gate(connection: Connection, database: str) -> AsyncIterator[Gate]:
    """Stops statements between their snapshot and their first row lock."""
    gate = Gate(database, connection)
    await gate.build()
    yield gate
    await gate.remove()


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """What a node tells about itself while the test runs."""
    reported: list[Event] = []
    listening = _Listening(reported)
    logger = logging.getLogger(LOGGER)
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(listening)
    yield reported
    logger.removeHandler(listening)
    logger.setLevel(before)


class _Listening(logging.Handler):
    def __init__(self, reported: list[Event]) -> None:
        super().__init__()
        self._reported = reported

    def emit(self, record: logging.LogRecord) -> None:
        self._reported.append(record.event)  # type: ignore[attr-defined]


@pytest.fixture
async def another(database: str) -> AsyncIterator[Connect]:
    """Makes connections to the test's own database, as many as it is asked for."""
    made: list[Connection] = []

    async def make() -> Connection:
        made.append(await connect(database))
        return made[-1]

    yield make
    await asyncio.gather(*(one.close(timeout=5) for one in made))
