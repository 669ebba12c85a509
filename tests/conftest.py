"""What all tests share: one server for each worker, one migrated template, a copy for each test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings

from tests.pooler import POOLER_VARIABLE, Pooler, straight
from tests.servers import SETTINGS_VARIABLE, ThrowAwayServer, remove_leftovers
from tests.sessions import USUAL

_numbers = itertools.count(1)
_LAST_OWN_OID = 16383

# How long an example takes is the machine's affair.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")

_asked_types: dict[frozenset[int], Any] = {}
_Asking: Any = asyncpg.Connection
_ask_types = _Asking._introspect_types


async def _ask_types_once(connection: Any, oids: set[int], timeout: float | None) -> Any:
    """The driver asks on each connection what arrays of PostgreSQL's own types are: of thousands of
    connections, a tenth of the work of a small test.
    """
    if max(oids) > _LAST_OWN_OID:
        return await _ask_types(connection, oids, timeout)
    key = frozenset(oids)
    if key not in _asked_types:
        _asked_types[key], _ = await _ask_types(connection, oids, timeout)
    return _asked_types[key], SimpleNamespace(name="asked before")


_Asking._introspect_types = _ask_types_once


@pytest.fixture(scope="session")
def server() -> Iterator[ThrowAwayServer]:
    """A running server that no test may stop; a test that kills makes a ThrowAwayServer."""
    remove_leftovers()
    with ThrowAwayServer() as running, running.staying_connected():
        yield running


@pytest.fixture(scope="session")
def template(server: ThrowAwayServer) -> str:
    """The name of a migrated database that nobody can connect to: copy it."""
    from tests.product.db import migrate

    name = "migrated"
    dsn = server.create_database(name)
    # In a thread: an event loop may already belong to this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(migrate(dsn))).result()
    server.seal_template(name)
    return name


@pytest.fixture(scope="session")
def pooler(server: ThrowAwayServer) -> Iterator[Pooler | None]:
    """What the environment wants between the product and the server: nothing, usually."""
    program = os.environ.get(POOLER_VARIABLE)
    if not program:
        yield None
        return
    with Pooler(Path(program), server) as running:
        yield running


@pytest.fixture
def database(server: ThrowAwayServer, template: str, pooler: Pooler | None) -> Iterator[str]:
    """The DSN of a migrated database of this test's own."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    dsn = server.create_database(name, template)
    yield dsn if pooler is None else pooler.dsn(dsn)
    server.drop_database(name)


@pytest.fixture(scope="session")
def shared_database(server: ThrowAwayServer, template: str) -> str:
    """The DSN of a migrated database in which nobody commits anything."""
    return server.create_database("shared", template)


@pytest.fixture
async def rolled_back(shared_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection for what is refused: cheaper than a database of the test's own. All
    of the test is one transaction, which never commits; what may fail has a savepoint.
    """
    connection = await asyncpg.connect(shared_database)
    if os.environ.get(SETTINGS_VARIABLE):
        await connection.execute(USUAL)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close(timeout=5)


@pytest.fixture
def empty_database(server: ThrowAwayServer) -> Iterator[str]:
    """The DSN of a database of this test's own with nothing in it."""
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    yield server.create_database(name)
    server.drop_database(name)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A superuser's connection to the test's own database; to the server itself, always."""
    connection = await asyncpg.connect(straight(database))
    if os.environ.get(SETTINGS_VARIABLE):  # what an application reads is as it usually is
        await connection.execute(USUAL)
    yield connection
    await connection.close(timeout=5)
