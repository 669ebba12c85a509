"""Which schema this program needs, and whether the database has it; without alembic, so that a
node stays small.

Programs and schemas of neighbouring revisions work together, in both directions: an upgrade
migrates first and replaces nodes one by one, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import asyncpg

from pgcron_ha.db.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import SchemaError

# The oldest revision that holds everything the node's statements use. A test keeps it equal to a
# revision of migrations/.
REQUIRED: Final = "pgcron_0001"
NEWEST: Final = "pgcron_0001"
"""The revision that `pgcron-ha migrate` brings; a test keeps it equal to the newest one."""

VERSION_TABLE: Final = "alembic_version"
"""Ours, in the schema of ours."""

_OURS: Final = re.compile(r"pgcron_\d{4}")


def is_newer(revision: str | None, than: str) -> bool:
    """Whether `revision` is one of ours, and a later one."""
    return revision is not None and bool(_OURS.fullmatch(revision)) and revision > than


async def read_revision(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> str | None:
    """The revision of `schema` in the database, or None when it was never migrated. Raises
    SchemaError when its version table is another history's.
    """
    statements = load(schema)
    table = f"{schema}.{VERSION_TABLE}"
    try:
        if await connection.fetchval(statements["find_relation"].sql, table) is None:
            return None
        rows = await connection.fetch(statements["read_revision"].sql)
    except asyncpg.UndefinedColumnError as error:
        raise foreign_table(schema, "It has no column version_num.") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not use the schema {schema!r}",
            str(error),
            "`pgcron-ha grants` prints the statements that give a role its rights.",
        ) from error
    return newest_of([row["version_num"] for row in rows], schema)


def newest_of(noted: Sequence[object], schema: str) -> str | None:
    """What the rows of the version table say. Raises SchemaError when it is somebody else's."""
    revisions = [str(each) for each in noted]
    others = sorted(each for each in revisions if not _OURS.fullmatch(each))
    if others:
        raise foreign_table(schema, f"It says {', '.join(others)}, no revision of pgcron_ha.")
    return max(revisions, default=None)


def foreign_table(schema: str, why: str) -> SchemaError:
    """That the version table in `schema` is that of another history."""
    return SchemaError(
        f"{schema}.{VERSION_TABLE} is not the version table of pgcron_ha alone",
        f"{why} The history of an application has a table of its own.",
        "Give pgcron_ha another schema (--schema; pgcron_ha_schema in alembic.ini), or the other "
        "history another table (version_table_schema or version_table in its env.py).",
    )


async def require_revision(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> str:
    """The revision of the database. Raises SchemaError unless it is (at least) what this program
    needs, and one that still works with this program.
    """
    found = await read_revision(connection, schema)
    if found is None:
        raise SchemaError(
            f"the schema {schema!r} is not in this database",
            f"This program needs revision {REQUIRED}.",
            "Run `pgcron-ha migrate`, or give a DBA the output of `pgcron-ha migrate --sql`.",
        )
    if found < REQUIRED:
        raise SchemaError(
            f"the schema {schema!r} is at revision {found}",
            f"This program needs revision {REQUIRED}.",
            "Run `pgcron-ha migrate`.",
        )
    await require_program(connection, found, schema)
    return found


async def require_program(
    connection: asyncpg.Connection, found: str | None, schema: str = DEFAULT_SCHEMA
) -> None:
    """Raises SchemaError when the database's revision `found` is so new that it has taken away what
    this program uses.
    """
    if not is_newer(found, NEWEST):
        return
    oldest: str = await connection.fetchval(load(schema, found)["oldest_program"].sql)
    if is_newer(oldest, NEWEST):
        raise SchemaError(
            f"the schema {schema!r} is at revision {found}",
            f"It works with programs that bring {oldest} or a later one; this one brings {NEWEST}.",
            "Use a newer version of pgcron_ha.",
        )
