"""A browser for all tests of a worker, and servers over clusters of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import asyncpg
import pytest
import pytest_asyncio

from tests.entering import entered
from tests.house.checkout import ROOT
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.waiting import wait_for
from tests.web.browser.hostile import fill
from tests.web.browser.watched import Windows, chromium
from tests.web.conftest import Seeded, Serve, Site

NODE = (
    *("--app", "tests.web.browser.jobs:app", "--web", "127.0.0.1:0"),
    *("--queue", "default", "--queue", "clicked"),
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows() -> AsyncIterator[Windows]:
    """Opens tabs of one browser for the worker, each with an empty profile."""
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hostile_database(server: ThrowAwayServer, seeded: Seeded) -> AsyncIterator[str]:
    """The DSN of a believable cluster with the corpus in every text; tests only look at it."""
    dsn = server.create_database("hostile", seeded.newest())
    connection = await own_session(dsn)
    await fill(connection)
    await connection.execute("UPDATE pgcron.node SET lease_until = now() + interval '1 hour'")
    await connection.close()
    yield dsn
    server.drop_database("hostile")


@pytest_asyncio.fixture(loop_scope="session")
async def hostile_site(hostile_database: str, serve: Serve) -> AsyncIterator[Site]:
    """A server over the cluster with the corpus in every text."""
    async with serve(hostile_database) as site:
        yield site


# Over those of the folder above: a browser's tests and their servers share one loop.
@pytest_asyncio.fixture(loop_scope="session")
async def full_site(full_database: str, serve: Serve) -> AsyncIterator[Site]:
    """A server over a believable cluster of the test's own."""
    async with serve(full_database) as site:
        yield site


@dataclass(frozen=True)
class Cluster:
    """A node as an operator starts it, with its pages, on a database of this worker's own."""

    url: str
    dsn: str

    async def execute(self, statement: str, *values: object) -> list[asyncpg.Record]:
        """One statement by plain SQL, in a connection of its own; its rows."""
        connection = await own_session(self.dsn)
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def cluster(
    server: ThrowAwayServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """``pgcron-ha node --web``; tests use schedules and queues of their own."""
    folder = tmp_path_factory.mktemp("node")
    dsn = server.create_database("clicked", template)
    environment = {"PGCRON_HA_DSN": dsn, "PGCRON_HA_NODE_STATE_DIRECTORY": str(folder / "state")}
    output = folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgcron_ha", "node", "--name", "clicked", *NODE],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        url = wait_for("it serves", lambda: entered(output.read_text()))
        assert url is not None
        yield Cluster(url, dsn)
    finally:
        process.kill()
        process.wait(10)
        server.drop_database("clicked")
