"""What pgcron_ha does not work with is refused before anything is made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from psycopg.sql import SQL, Identifier

from pgcron_ha.errors import SchemaError
from tests.product.db import as_sql, check, migrate
from tests.servers import ThrowAwayServer
from tests.waiting import COMMAND_SECONDS

OFF = "pgcron_ha does not work here: standard_conforming_strings is off"


@pytest.fixture
def latin(server: ThrowAwayServer, empty_database: str) -> Iterator[str]:
    """The DSN of a database with another encoding."""
    name = urlsplit(empty_database).path[1:] + "_latin"
    make = SQL("CREATE DATABASE {} ENCODING 'LATIN1' TEMPLATE template0")
    server.execute(make.format(Identifier(name)))
    yield server.dsn(name)
    server.drop_database(name)


@pytest.fixture
def escaping(server: ThrowAwayServer, empty_database: str) -> Iterator[str]:
    """The DSN of a database with nothing in it, as a role for which backslashes escape."""
    name = urlsplit(empty_database).path[1:] + "_role"
    server.execute(SQL("CREATE ROLE {} LOGIN SUPERUSER").format(Identifier(name)))
    server.execute(
        SQL("ALTER ROLE {} SET standard_conforming_strings = off").format(Identifier(name))
    )
    yield empty_database.replace("//postgres:", f"//{name}:")
    server.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(name)))


async def test_a_database_of_another_encoding_is_refused(latin: str) -> None:
    with pytest.raises(SchemaError, match="the database has the encoding LATIN1") as refused:
        await migrate(latin)

    assert "ENCODING 'UTF8'" in (refused.value.hint or "")
    assert await check(latin) is None


async def test_a_role_for_which_backslashes_escape_is_refused(
    escaping: str, empty_database: str
) -> None:
    with pytest.raises(SchemaError, match=OFF) as refused:
        await migrate(escaping)

    assert "RESET standard_conforming_strings" in (refused.value.hint or "")
    await migrate(empty_database)


def test_the_printed_sql_refuses_the_same(
    server: ThrowAwayServer, latin: str, escaping: str
) -> None:
    for dsn, why in ((latin, "the database has the encoding LATIN1"), (escaping, OFF)):
        answer = subprocess.run(
            [server.binaries.tool("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn],
            input=as_sql(),
            capture_output=True,
            text=True,
            check=False,
            env=server.binaries.environment() | {"PGCLIENTENCODING": "UTF8"},
            timeout=COMMAND_SECONDS,
        )
        assert answer.returncode != 0
        assert why in answer.stderr


async def test_a_keyword_is_no_name_of_a_schema(empty_database: str) -> None:
    for keyword in ("between", "user"):
        with pytest.raises(SchemaError, match=f"the schema's name '{keyword}' is a keyword"):
            await migrate(empty_database, keyword)
