"""A browser for all tests of a worker, and servers over clusters of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest_asyncio

from tests.servers import ThrowAwayServer
from tests.web.browser.hostile import fill
from tests.web.browser.watched import Windows, chromium
from tests.web.conftest import Serve, Site


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows() -> AsyncIterator[Windows]:
    """Opens tabs of one browser for the worker, each with an empty profile."""
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hostile_database(server: ThrowAwayServer, seeded_template: str) -> AsyncIterator[str]:
    """The DSN of a believable cluster with the corpus in every text; tests only look at it."""
    dsn = server.create_database("hostile", seeded_template)
    connection = await asyncpg.connect(dsn)
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
