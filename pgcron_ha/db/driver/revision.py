"""Which schema this program needs, and whether the database has it; without alembic, so that a
node stays small.

Programs and schemas of neighbouring revisions work together, in both directions: an upgrade
migrates first and replaces nodes one by one, or the other way round. A database notes, beside its
revision, the scripts that made it: until the first release the one revision changes in place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final

import asyncpg

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import SchemaError

# The oldest revision that holds everything the node's statements use. A test keeps it equal to a
# revision of migrations/.
REQUIRED: Final = "pgcron_0001"
NEWEST: Final = "pgcron_0001"
"""The revision that `pgcron-ha migrate` brings; a test keeps it equal to the newest one."""

VERSION_TABLE: Final = "alembic_version"
"""Our version table, in our schema."""

_OWN: Final = re.compile(r"pgcron_(\d{4})")


def is_newer(revision: str | None, than: str) -> bool:
    """Whether `revision` is one of pgcron_ha's and later than `than`."""
    return _number(revision) > _number(than)


@lru_cache(maxsize=1)
def checksum_of_scripts() -> str:
    """The SHA-256 of ``migrations/sql``, as a migration notes it in the comment on the version
    table.
    """
    scripts = sorted((MIGRATIONS / "sql").glob("*.sql"))
    return sha256(b"".join(script.read_bytes() for script in scripts)).hexdigest()


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
    others = sorted(each for each in revisions if _number(each) < 0)
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


async def require_supported(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> None:
    """Raises SchemaError in a database that pgcron_ha does not work in."""
    found = await connection.fetch(load(schema)["find_unsupported"].sql, schema)
    if found:
        raise unsupported([row["name"] for row in found])


def unsupported(found: Sequence[str]) -> SchemaError:
    """That the database, or the session's role, has what pgcron_ha does not work with."""
    # ASCII: `migrate --sql` prints it, for a database that may have no other characters.
    return SchemaError(
        f"pgcron_ha does not work here: {', '.join(found)}",
        "A database has the encoding UTF8, a role and its database leave"
        " standard_conforming_strings on, and a schema's name needs no quotes.",
        "Use a database made with ENCODING 'UTF8' TEMPLATE template0; RESET"
        " standard_conforming_strings by ALTER ROLE or ALTER DATABASE; or choose another schema"
        " (--schema).",
    )


async def require_revision(connection: asyncpg.Connection, schema: str = DEFAULT_SCHEMA) -> str:
    """The revision of the database. Raises SchemaError unless this program works with it."""
    found = await read_revision(connection, schema)
    if found is None or found < REQUIRED:
        raise too_old(schema, found, REQUIRED)
    await require_known(connection, found, schema)
    return found


def too_old(schema: str, found: str | None, needed: str) -> SchemaError:
    """That the schema is missing, or at an earlier revision than is needed."""
    state = "is not in this database" if found is None else f"is at revision {found}"
    return SchemaError(
        f"the schema {schema!r} {state}",
        f"This program needs revision {needed}.",
        "Run `pgcron-ha migrate`, or give a DBA the output of `pgcron-ha migrate --sql`.",
    )


async def require_known(
    connection: asyncpg.Connection, found: str | None, schema: str = DEFAULT_SCHEMA
) -> None:
    """Raises SchemaError when the database's revision `found` is more than one later than this
    program's, or is this program's and was made by other scripts.
    """
    if _number(found) > _number(NEWEST) + 1:
        raise SchemaError(
            f"the schema {schema!r} is at revision {found}",
            f"This program brings {NEWEST}, and works with the revision after it, too.",
            "Use a newer version of pgcron_ha.",
        )
    if found != NEWEST:
        return
    if await connection.fetchval(load(schema)["read_scripts"].sql) != checksum_of_scripts():
        raise SchemaError(
            f"the schema {schema!r} was made by other scripts of revision {found}",
            "Until the first release this revision changes in place, without a way from one state "
            "to the next.",
            "Remove the schema with all that it has (`pgcron-ha migrate --uninstall --yes`, or "
            f"DROP SCHEMA {schema} CASCADE), and run `pgcron-ha migrate`.",
        )


def _number(revision: str | None) -> int:
    """Of a revision of pgcron_ha; -1 of what is none."""
    match = _OWN.fullmatch(revision or "")
    return int(match[1]) if match else -1
