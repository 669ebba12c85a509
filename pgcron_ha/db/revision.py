"""Which schema this program needs, and whether the database has it; without alembic, so that a
node stays small.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from pgcron_ha.db.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import SchemaError

# The oldest revision that holds everything the node's statements use. A test keeps it equal to a
# revision of migrations/.
REQUIRED: Final = "pgcron_0001"


async def read_revision(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> str | None:
    """The revision of `schema` in the database, or None when it was never migrated."""
    statements = load(schema)
    table = f"{schema}.alembic_version"
    try:
        if await connection.fetchval(statements["find_relation"].sql, table) is None:
            return None
        found: str | None = await connection.fetchval(statements["read_revision"].sql)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"this role may not use the schema {schema!r}",
            str(error),
            "`pgcron-ha grants` prints the statements that give a role its rights.",
        ) from error
    return found


async def require_revision(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> None:
    """Raises SchemaError unless the database has (at least) the revision that this program
    needs.
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
