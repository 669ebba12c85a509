"""A program whose schema was migrated by a newer one."""

from __future__ import annotations

import pytest

from pgcron_ha.cli.migrate import _judged
from pgcron_ha.db.revision import NEWEST, is_newer, require_revision
from pgcron_ha.db.schema import check, head, migrate
from pgcron_ha.errors import SchemaError
from tests.db.control import Connection

LATER = "pgcron_9999"


@pytest.fixture
async def newer(connection: Connection, database: str) -> str:
    """A database as later revisions may leave it."""
    await connection.execute(f"UPDATE pgcron.alembic_version SET version_num = '{LATER}'")
    await set_oldest(connection, NEWEST)
    return database


async def set_oldest(connection: Connection, revision: str) -> None:
    await connection.execute(
        "CREATE OR REPLACE FUNCTION pgcron.oldest_program() RETURNS text LANGUAGE sql IMMUTABLE"
        f" RETURN '{revision}'::text"
    )


async def test_a_newer_schema_is_worked_with(newer: str, connection: Connection) -> None:
    assert await require_revision(connection) == LATER
    assert await check(newer) == (LATER, head())
    assert "works with it" in _judged("pgcron", LATER, head())


async def test_a_newer_schema_needs_no_migration_by_an_older_program(
    newer: str, connection: Connection
) -> None:
    await migrate(newer)

    assert await connection.fetchval("SELECT version_num FROM pgcron.alembic_version") == LATER


async def test_a_schema_that_has_left_this_program_behind_says_so(
    newer: str, connection: Connection
) -> None:
    await set_oldest(connection, "pgcron_9998")

    for refused in (require_revision(connection), check(newer), migrate(newer)):
        with pytest.raises(SchemaError, match=f"is at revision {LATER}") as told:
            await refused
        assert told.value.hint == "Use a newer version of pgcron_ha."


@pytest.mark.parametrize(
    ("revision", "newer"),
    [(None, False), ("9999", False), ("pgcron_0001", False), ("pgcron_0010", True)],
)
def test_only_a_later_one_of_ours_is_newer(revision: str | None, newer: bool) -> None:
    assert is_newer(revision, "pgcron_0001") is newer
