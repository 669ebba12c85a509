"""One connection for one command: settings, connection, schema check, and the loop around it."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.commands.schedule_versions import on_warning
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.clients import Connection, connect_client
from pgcron_ha.db.driver.revision import require_revision

Result = TypeVar("Result")

_CLOSE_SECONDS = 5


@dataclass(frozen=True)
class Session:
    """A connection to a database that has our schema, and who asks."""

    connection: Connection
    schema: str
    settings: Settings
    actor: str | None


def on_database(
    work: Callable[[Session], Awaitable[Result]], *, needs_schema: bool = True
) -> Result:
    """Run `work` on a connection of its own and close it.

    Raises ConfigError without a DSN, DatabaseUnavailable, SchemaError unless the schema is there
    (or `needs_schema` is False), and whatever `work` raises; a role without rights is Refused.
    """
    settings = command_context().load()
    return asyncio.run(_run(settings, work, needs_schema))


async def _run(
    settings: Settings, work: Callable[[Session], Awaitable[Result]], needs_schema: bool
) -> Result:
    connection = await connect_client(settings.required_dsn())
    on_warning(connection, _warn)
    try:
        with answers():
            if needs_schema:
                await require_revision(connection, settings.schema)
            done = await work(Session(connection, settings.schema, settings, _actor()))
        await asyncio.sleep(0)  # warnings are told a turn later
        return done
    finally:
        await connection.close(timeout=_CLOSE_SECONDS)


def _warn(message: str, detail: str, hint: str) -> None:
    echo(f"warning: {message}\n  {detail}\n  {hint}", err=True)


def _actor() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return None
