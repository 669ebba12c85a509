"""The schema by alembic, called from Python: migrate, print as SQL, check.

Alembic and SQLAlchemy are imported here and nowhere else. `pgcron-ha node` never imports this
module: it compares `pgcron_ha.db.driver.revision.REQUIRED` with what the database says.
"""

from __future__ import annotations

import asyncio
import io
import threading
from functools import partial
from typing import Any, Final

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.db.driver.answers import chain_of, explain_answer
from pgcron_ha.db.driver.connecting import connect, connected
from pgcron_ha.db.driver.revision import NEWEST, is_newer, read_revision, require_known
from pgcron_ha.db.driver.session_settings import MIGRATION, PATH
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.schema.locks import LOCK_SECONDS, in_tries, no_lock
from pgcron_ha.db.schema.steps import OWN, making, refuse_unsupported, take_turn
from pgcron_ha.errors import PgcronError, SchemaError

BASE: Final = "base"
"""Before the first revision that a program carries."""

_TURN = threading.Lock()
_TURN_LOOK_SECONDS: Final = 0.02


async def migrate(dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
    """Brings `schema` in the database of `dsn` to this program's revision; nothing happens when it
    is there already, or when that of a newer program is: it works with this one.

    What nodes do meanwhile waits for the migration's locks, and it for theirs, for LOCK_SECONDS at
    most; then it is begun again, up to LOCK_TRIES times. Raises DatabaseUnavailable when the server
    can't be reached or is too old, SchemaError when the role lacks the rights, the locks are not to
    be had, the database is not supported, or the schema is too new for this program or was made by
    other scripts.
    """
    # Alembic's context is one for the whole process, so its migrations take turns. A thread that
    # waited for the lock would take it even when this call is cancelled meanwhile.
    while not _TURN.acquire(blocking=False):  # noqa: ASYNC110 - its holder may be of another loop
        await asyncio.sleep(_TURN_LOOK_SECONDS)
    try:
        if not is_newer(await check(dsn, schema), NEWEST):
            await in_tries(partial(_migrate, dsn, schema))
    finally:
        _TURN.release()


async def _migrate(dsn: str, schema: str) -> None:
    # After waiting for another migration, this one must see its changes.
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(connect, dsn, MIGRATION),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
    )
    try:
        async with engine.connect() as connection:
            await connection.run_sync(
                lambda there: command.upgrade(_config(schema=schema, connection=there), NEWEST)
            )
            await connection.commit()
    except Exception as error:
        raise _explained(error) from error
    finally:
        await engine.dispose()


def as_sql(schema: str = DEFAULT_SCHEMA, since: str = BASE) -> str:
    """What `migrate` would run on a database at `since`, for a DBA to read and run. Raises
    SchemaError for a revision that this program does not carry.
    """
    output = io.StringIO()
    config = _config(output, schema=schema)
    try:
        command.upgrade(config, f"{since}:{NEWEST}", sql=True)
    except CommandError as error:
        raise _explained(error) from error
    return output.getvalue()


async def check(dsn: str, schema: str = DEFAULT_SCHEMA) -> str | None:
    """The revision of the database, or None. Raises SchemaError when it does not work with this
    program and no migration helps: it is too new, or was made by other scripts.
    """
    async with connected(dsn) as connection:
        found = await read_revision(connection, schema)
        await require_known(connection, found, schema)
        return found


def run_environment(context: EnvironmentContext) -> None:
    """What ``migrations/env.py`` does: one connection, one lock, one transaction (or printed
    SQL).
    """
    context.config.attributes[OWN] = True
    schema = context.config.attributes.get("schema", DEFAULT_SCHEMA)
    settings: tuple[str, ...] = (f"lock_timeout = '{LOCK_SECONDS}s'",)
    if context.is_offline_mode():
        settings = f"search_path = {PATH}", "statement_timeout = 0"
        context.configure(
            dialect_name="postgresql", version_table_schema=schema, literal_binds=True
        )
    else:
        connection = context.config.attributes["connection"]
        # Nodes start together: the lock comes before alembic reads its version table.
        take_turn(connection)
        context.configure(connection=connection, version_table_schema=schema)
    with context.begin_transaction():
        for setting in settings:
            context.execute(f"SET LOCAL {setting}")
        refuse_unsupported(context.get_context())
        context.execute(making(schema))
        context.run_migrations()


def _config(output: io.StringIO | None = None, **attributes: Any) -> Config:
    config = Config(output_buffer=output, attributes=attributes)
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _explained(error: Exception) -> Exception:
    if isinstance(error, PgcronError):
        return error
    # What the server said, from inside SQLAlchemy's error.
    answers = (each for each in chain_of(error) if isinstance(each, asyncpg.PostgresError))
    original = next(answers, None)
    if isinstance(original, asyncpg.InsufficientPrivilegeError):
        return SchemaError(
            f"this role may not migrate: {original}",
            "Migrating makes a schema and tables: the role needs CREATE on the database.",
            "Let a DBA run the output of `pgcron-ha migrate --sql`, or GRANT CREATE ON DATABASE.",
        )
    if isinstance(original, asyncpg.LockNotAvailableError):
        return no_lock("the migration", original)
    if isinstance(original, asyncpg.PostgresError):
        return explain_answer(original) or error
    if type(error).__module__.startswith("alembic"):
        return SchemaError(
            f"the schema can't be migrated: {error}",
            "The database, or --from, names a revision that this program does not carry.",
            "Use the version of pgcron_ha that made it, or a newer one.",
        )
    return error
