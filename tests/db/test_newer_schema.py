"""A program whose schema was migrated by a newer one."""

from __future__ import annotations

import pytest

from pgcron_ha.errors import SchemaError
from tests.db.control import Connection
from tests.product.cli import _judged
from tests.product.db import NEWEST, check, is_newer, migrate, require_revision

NEXT = f"pgcron_{int(NEWEST[-4:]) + 1:04}"
LATER = f"pgcron_{int(NEWEST[-4:]) + 2:04}"
MIGRATED = "UPDATE pgcron.alembic_version SET version_num = $1"


@pytest.fixture
async def newer(connection: Connection, database: str) -> str:
    """A database at the revision after this program's."""
    await connection.execute(MIGRATED, NEXT)
    return database


async def test_a_newer_schema_is_worked_with(newer: str, connection: Connection) -> None:
    assert await require_revision(connection) == NEXT
    assert await check(newer) == NEXT
    assert "works with it" in _judged("pgcron", NEXT)


async def test_a_newer_schema_needs_no_migration_by_an_older_program(
    newer: str, connection: Connection
) -> None:
    await migrate(newer)

    assert await connection.fetchval("SELECT version_num FROM pgcron.alembic_version") == NEXT


async def test_a_schema_that_has_left_this_program_behind_says_so(
    newer: str, connection: Connection
) -> None:
    await connection.execute(MIGRATED, LATER)

    for refused in (require_revision(connection), check(newer), migrate(newer)):
        with pytest.raises(SchemaError, match=f"is at revision {LATER}") as reported:
            await refused
        assert reported.value.hint == "Use a newer version of pgcron_ha."


@pytest.mark.parametrize(
    ("revision", "newer"),
    [(None, False), ("9999", False), ("pgcron_0001", False), ("pgcron_0010", True)],
)
def test_only_a_later_one_of_ours_is_newer(revision: str | None, newer: bool) -> None:
    assert is_newer(revision, "pgcron_0001") is newer
