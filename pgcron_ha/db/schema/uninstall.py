"""Removes all objects of pgcron_ha from a database, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final

import asyncpg

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import connected
from pgcron_ha.db.driver.revision import VERSION_TABLE, read_revision
from pgcron_ha.db.driver.session_settings import MIGRATION
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, in_schema, load
from pgcron_ha.db.schema.locks import LOCK_SECONDS, MIGRATION_KEY, in_tries, no_lock
from pgcron_ha.errors import Conflict

_MADE: Final = re.compile(
    r"^CREATE (?:TABLE|VIEW|FUNCTION|PROCEDURE|SEQUENCE|TYPE) pgcron\.(\w+)", re.MULTILINE
)


async def uninstall(dsn: str, schema: str = DEFAULT_SCHEMA, *, by_force: bool = False) -> bool:
    """Removes all our objects in one transaction; False when there are none in `schema`.

    The schema is removed, too, if a migration made it; roles are kept. Raises Conflict for a schema
    with an object that no migration made, and, unless `by_force`, while nodes are alive or when
    objects of others (views, foreign keys, triggers…) use ours: they would be removed, too. It
    waits for locks as a migration does, and raises SchemaError when they are not to be had.
    """
    return await in_tries(partial(_try, dsn, schema, by_force))


async def _try(dsn: str, schema: str, by_force: bool) -> bool:
    async with connected(dsn, MIGRATION) as connection:
        with answers():
            try:
                async with connection.transaction(isolation="read_committed"):
                    return await _uninstall(connection, schema, by_force)
            except asyncpg.LockNotAvailableError as error:
                raise no_lock("the removal", error) from error


async def _uninstall(connection: asyncpg.Connection, schema: str, by_force: bool) -> bool:
    statements = load(schema)
    # Who comes meanwhile waits behind it, and for what it has dropped already.
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    await connection.execute(statements["take_migration_turn"].sql, MIGRATION_KEY)
    is_there = await read_revision(connection, schema) is not None
    known = known_names() if is_there else {VERSION_TABLE}
    orphans = await _names(connection, statements["orphans_in_schema"].sql, schema, sorted(known))
    if not is_there:
        # An application's alembic may have left the version table behind, empty.
        table = f"{schema}.{VERSION_TABLE}"
        if orphans or await connection.fetchval(statements["find_relation"].sql, table) is None:
            return False
    elif orphans:
        raise foreign_objects(schema, orphans)
    elif not by_force:
        nodes = await _names(connection, statements["nodes_with_lease"].sql)
        if nodes:
            raise Conflict(
                f"nodes are alive: {', '.join(nodes)}",
                "What they execute would be left without a record.",
                "Stop them first; or --force, and stop them then: until then they try and warn.",
            )
        built = await _names(connection, statements["dependents_of_schema"].sql, schema)
        if built:
            raise dependents_there(built, "or --force, and they go, too")
    for name in ("drop", "uninstall") if is_there else ("uninstall",):
        script = (MIGRATIONS / "sql" / f"{name}.sql").read_text(encoding="utf-8")
        await connection.execute(in_schema(script, schema))
    return True


def foreign_objects(schema: str, names: Iterable[str]) -> Conflict:
    """The error for a schema that others use, too."""
    return Conflict(
        f"the schema '{schema}' has objects of others: {', '.join(names)}",
        "pgcron_ha has a schema of its own: what removes it empties the schema.",
        "Move or drop these, or name another schema (--schema; pgcron_ha_schema in alembic.ini).",
    )


def dependents_there(names: Iterable[str], otherwise: str = "") -> Conflict:
    """The error for objects of others that depend on ours."""
    return Conflict(
        f"objects of others use what is to be removed: {', '.join(names)}",
        "They would be removed with it.",
        "Drop or change them first" + (f"; {otherwise}." if otherwise else "."),
    )


async def _names(connection: asyncpg.Connection, sql: str, *values: object) -> list[str]:
    return [row["name"] for row in await connection.fetch(sql, *values)]


def known_names() -> set[str]:
    """The names of all tables, views, functions, … that migrations make."""
    scripts = (MIGRATIONS / "sql").glob("*.sql")
    made = {name for path in scripts for name in _MADE.findall(path.read_text(encoding="utf-8"))}
    return made | {VERSION_TABLE}
