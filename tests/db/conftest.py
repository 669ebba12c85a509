"""Connections with the session settings of a node, and a gate inside statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.db.control import Connect, Connection
from tests.db.gate import Gate
from tests.db.roles import Become
from tests.product.cli import granting
from tests.product.db import connect


@pytest.fixture
async def another(database: str) -> AsyncIterator[Connect]:
    """Makes control connections to the test's own database, as many as it is asked for."""
    made: list[Connection] = []

    async def make() -> Connection:
        made.append(await connect(database))
        return made[-1]

    yield make
    await asyncio.gather(*(one.close(timeout=5) for one in made))


@pytest.fixture
async def gate(connection: Connection, database: str) -> AsyncIterator[Gate]:
    """Stops statements between their snapshot and their first row lock."""
    gate = Gate(database, connection)
    await gate.build()
    yield gate
    await gate.remove()


@pytest.fixture
async def orphan(connection: Connection, another: Connect) -> AsyncIterator[Connection]:
    """Somebody who may use the schema, and was granted nothing in it."""
    name = f"stranger_{await connection.fetchval('SELECT current_database()')}"
    await connection.execute(f"CREATE ROLE {name}; GRANT USAGE ON SCHEMA pgcron TO {name}")
    session = await another()
    await session.execute(f"SET ROLE {name}")
    yield session
    await session.execute("RESET ROLE")
    await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
async def become(connection: Connection, another: Connect) -> AsyncIterator[Become]:
    """Sessions of new roles with these parts, as the roles themselves would log in."""
    database = await connection.fetchval("SELECT current_database()")
    sessions: list[tuple[str, Connection]] = []

    async def make(*parts: str, **only: Any) -> Connection:
        name = f"r{len(sessions)}_{database}"
        await connection.execute(f"CREATE ROLE {name} LOGIN")
        for part in parts:
            await connection.execute(granting(part, name, **only))
        session = await another()
        sessions.append((name, session))
        await session.execute(f"SET SESSION AUTHORIZATION {name}")
        return session

    yield make
    for name, session in reversed(sessions):
        await session.execute("RESET SESSION AUTHORIZATION")
        await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
