"""Steps that the revisions in ``migrations/versions`` call. Each step is made once.

The caller is either `pgcron_ha.db.schema.migrate`, with the version table in our schema, or the
alembic of a host application, which has our revisions as a branch of its history and its own
version table. In that case the step also updates our table, which nodes and `pgcron-ha migrate`
read, and does nothing if that table already has the revision. So both may run, in any order.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from alembic import op
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.db.driver.revision import (
    VERSION_TABLE,
    checksum_of_scripts,
    foreign_table,
    newest_of,
    unsupported,
)
from pgcron_ha.db.driver.session_settings import PATH
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, in_schema, literal, load
from pgcron_ha.db.schema.locks import MIGRATION_KEY
from pgcron_ha.db.schema.uninstall import dependents_there, foreign_objects, known_names
from pgcron_ha.errors import PgcronError, SchemaError
from pgcron_ha.spec.zones import zone_names

SCHEMA_OPTION: Final = "pgcron_ha_schema"
"""In the ``[alembic]`` section of a host application: the schema's name, else ``pgcron``."""

OWN: Final = "pgcron_ha"
"""The attribute of our own config; a config without it is a host application's."""

TURN_SECONDS: Final = 60
"""Longest wait of a migration for another one, or for another holder of its lock."""

_FIRST: Final = "pgcron_0001"


def begin_step(revision: str) -> bool:
    """Whether the objects of `revision` are to be made now; notes the scripts that make them. In a
    host application's alembic it waits for other migrations, makes the schema, and notes the
    revision.
    """
    context = op.get_context()
    schema = _schema(context)
    table = f"{schema}.{VERSION_TABLE}"
    if not _is_own(context):
        _take_turn(context, schema)
        refuse_unsupported(context)
        op.execute(making(schema))
        op.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (version_num varchar(32) NOT NULL,"
            " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
        _require_own_table(context, schema)  # now "$user" of a role of this name finds our table
        if not context.as_sql and revision <= (_noted(schema) or ""):
            return False
        op.execute(_forgetting(schema))
        op.execute(f"INSERT INTO {table} VALUES ('{revision}')")
    if revision == _FIRST:
        _refuse(context, "orphans_in_schema", partial(foreign_objects, schema), {VERSION_TABLE})
    op.execute(f"COMMENT ON TABLE {table} IS 'Private: {checksum_of_scripts()}'")
    return True


def _take_turn(context: MigrationContext, schema: str) -> None:
    """Waits for other migrations of a host's alembic."""
    _require_own_table(context, schema)
    if not context.as_sql:
        take_turn(op.get_bind())


def take_turn(connection: Connection) -> None:
    """Waits for another migration and logs its session. SchemaError after TURN_SECONDS."""
    if connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({MIGRATION_KEY})")):
        return
    look = load()["migration_turn_holder"].sql.replace("$1", str(MIGRATION_KEY))
    holder = connection.scalar(text(look.replace("::", r"\:\:"))) or "that has just ended"
    message = f"the migration waits for session {holder}"
    logging.getLogger("pgcron_ha").warning("%s, up to %s s", message, TURN_SECONDS)
    try:
        with _set(connection, "lock_timeout", f"{TURN_SECONDS}s"):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_KEY})"))
    except DBAPIError as error:
        # psycopg2 says pgcode.
        codes = [getattr(error.orig, name, None) for name in ("sqlstate", "pgcode")]
        if "55P03" not in codes:  # no lock within its time-out
            raise
        raise SchemaError(
            f"{message}, and has waited for {TURN_SECONDS} s",
            "Migrations of a database take turns by an advisory lock; nothing was changed.",
            "Try again when it has ended, or end it: SELECT pg_terminate_backend(PID);",
        ) from error


def run_script(name: str) -> None:
    """Runs ``migrations/sql/<name>.sql`` in the migration's schema; several statements, or
    printed when offline.
    """
    script = (MIGRATIONS / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    _execute(in_schema(script, _schema(op.get_context())))


def insert_timezones() -> None:
    """Fills the table of zones that schedules may name from the tzdata package."""
    values = ", ".join(f"('{name}')" for name in sorted(zone_names()))
    schema = _schema(op.get_context())
    _execute(f"INSERT INTO {schema}.timezone (name) VALUES {values} ON CONFLICT DO NOTHING;")


def drop_everything() -> None:
    """Drops the objects of the schema for a host's alembic, whatever partitions were made since,
    unless that has been done. Raises Conflict for what others have in it or have built on it.
    """
    context = op.get_context()
    schema = _schema(context)
    _take_turn(context, schema)
    if not context.as_sql and _noted(schema) is None:
        return
    op.execute(_forgetting(schema))
    # They would be removed with ours.
    _refuse(context, "orphans_in_schema", partial(foreign_objects, schema), known_names())
    _refuse(context, "dependents_of_schema", dependents_there)
    run_script("drop")


def refuse_unsupported(context: MigrationContext) -> None:
    """Raises SchemaError in a database that pgcron_ha does not work in, or prints what does it
    offline.
    """
    _refuse(context, "find_unsupported", unsupported)


def _refuse(
    context: MigrationContext,
    look: str,
    error: Callable[[list[str]], PgcronError],
    known: Iterable[str] = (),
) -> None:
    """Raises the error when the statement finds names; or prints what does it offline."""
    schema = _schema(context)
    sql = load(schema)[look].sql.replace("$1", f"'{schema}'")
    sql = sql.replace("$2", "'{" + ",".join(sorted(known)) + "}'")
    if not context.as_sql:
        with _set(context.bind, "search_path", PATH) as bind:
            names = bind.scalars(text(sql)).all()
        if names:
            raise error(names)
        return
    reported = error(["%s"])
    detail, hint = literal(reported.detail or ""), literal(reported.hint or "")
    context.impl.static_output(
        f"DO $$ DECLARE others text := (SELECT string_agg(o.name, ', ') FROM ({sql}) o); BEGIN\n"
        f"IF others IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = '{reported.sqlstate}',"
        f" MESSAGE = format({literal(reported.message)}, others),"
        f" DETAIL = {detail}, HINT = {hint}; END IF; END $$;"
    )


def making(schema: str) -> str:
    """A DBA may have made the schema; one that we make says so, and may be dropped again."""
    return (
        f"DO $$ BEGIN IF to_regnamespace('{schema}') IS NULL THEN CREATE SCHEMA {schema}; "
        f"COMMENT ON SCHEMA {schema} IS 'pgcron_ha: cron and background jobs'; END IF; END $$"
    )


def _is_own(context: MigrationContext) -> bool:
    return context.config is not None and OWN in context.config.attributes


def _schema(context: MigrationContext) -> str:
    if _is_own(context):
        return context.version_table_schema or DEFAULT_SCHEMA
    name = context.config.get_main_option(SCHEMA_OPTION) if context.config else None
    in_schema("", name or DEFAULT_SCHEMA)  # refuses a name that is not plain
    return name or DEFAULT_SCHEMA


def _forgetting(schema: str) -> str:
    return f"DELETE FROM {schema}.{VERSION_TABLE} WHERE starts_with(version_num, 'pgcron_')"


def _require_own_table(context: MigrationContext, schema: str) -> None:
    """Raises SchemaError when the host's alembic keeps its history in our version table."""
    named = context.version_table_schema, context.version_table
    if context.as_sql:
        homes = (schema, None) if schema == "public" else (schema,)
        is_own = named in [(home, VERSION_TABLE) for home in homes]
    else:
        quote = context.impl.dialect.identifier_preparer.quote_identifier
        theirs = ".".join(quote(part) for part in named if part is not None)
        same = text("SELECT to_regclass(:theirs) = to_regclass(:own)")
        own = f"{schema}.{VERSION_TABLE}"
        is_own = op.get_bind().scalar(same, {"theirs": theirs, "own": own})
    if is_own:
        why = "This alembic would keep its own history in it"
        if context.version_table_schema is None:
            why += ': its search_path finds it first, as "$user" does for a role of that name'
        raise foreign_table(schema, f"{why}.")


def _noted(schema: str) -> str | None:
    """The revision that our own version table has, or None."""
    bind = op.get_bind()
    name = {"name": f"{schema}.{VERSION_TABLE}"}
    if bind.scalar(text("SELECT to_regclass(:name)"), name) is None:
        return None
    try:
        rows = bind.scalars(text(f"SELECT version_num FROM {schema}.{VERSION_TABLE}"))
        return newest_of(rows.all(), schema)
    except ProgrammingError as error:
        raise foreign_table(schema, "It has no column version_num.") from error


def _execute(script: str) -> None:
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(script)
        return
    # Scripts name objects of pg_catalog without a schema.
    with _set(context.bind, "search_path", PATH) as bind:
        _send(bind.connection.dbapi_connection, script)


@contextlib.contextmanager
def _set(connection: Any, name: str, value: str) -> Iterator[Any]:
    """The connection with this setting, which afterwards is what it was: the host's own revisions
    may need it.
    """
    change = text("SELECT pg_catalog.set_config(:name, :value, true)")
    before = connection.scalar(text("SELECT pg_catalog.current_setting(:name)"), {"name": name})
    connection.execute(change, {"name": name, "value": value})
    yield connection
    connection.execute(change, {"name": name, "value": before})


def _send(driver: Any, script: str) -> None:
    """Several commands at once, which is what drivers do with a text without parameters."""
    if hasattr(driver, "run_async"):  # asyncpg and others without a synchronous side
        driver.run_async(lambda connection: connection.execute(script))
        return
    if type(driver).__module__.partition(".")[0] not in ("psycopg", "psycopg2"):
        raise SchemaError(
            f"the driver {type(driver).__module__} sends one command at a time",
            "A revision of pgcron_ha is a script of many commands.",
            "Migrate by psycopg, psycopg2 or asyncpg; or run `pgcron-ha migrate` beside alembic.",
        )
    with driver.cursor() as cursor:
        cursor.execute(script)
