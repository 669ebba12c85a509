"""The version before, and databases as it leaves them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgcron_ha.db.schema import migrate
from tests.e2e.ledger import Connection
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.upgrade.previous import REVISION, unpack

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the version before, as installed."""
    return unpack(tmp_path_factory.mktemp("previous"))


@pytest.fixture
def older_database(server: ThrowAwayServer) -> Iterator[str]:
    """The DSN of a database of this test's own with the schema of the version before."""
    name = f"older_{os.getpid()}_{next(_numbers)}"
    dsn = server.create_database(name)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(migrate(dsn, revision=REVISION))).result()
    yield dsn
    server.drop_database(name)


@pytest.fixture
async def older(older_database: str) -> AsyncIterator[Connection]:
    """A connection to it."""
    connection = await own_session(older_database)
    yield connection
    await connection.close(timeout=5)
