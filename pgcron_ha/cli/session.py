"""One connection for one command: settings, connection, schema check, and the loop around it.

A command of one statement is ``call(query, …)``, or ``act(change, …)`` when the change is recorded
with its author. One of several statements is an async function, which gets a `Session` from
`arguments.JsonCommand` (or `with_session`); for a part of a command there is `on_database`.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import getpass
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import warn
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.db.commands.schedule_versions import on_warning
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import connect
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.db.driver.session import Result
from pgcron_ha.db.driver.session import Session as Session
from pgcron_ha.db.driver.session import Statement as Statement
from pgcron_ha.db.driver.session_settings import COMMAND, SessionSettings
from pgcron_ha.db.queries import overview, workflows
from pgcron_ha.errors import NotFound, PgcronError

Parameters = ParamSpec("Parameters")

_CLOSE_SECONDS = 5
_MOST_NAMES = 1000
_LISTS = {"schedule": overview.schedules, "workflow": workflows.workflows, "node": overview.nodes}


class _NobodyReads(Exception):
    """The program that reads the output has ended: no error of the database."""


def with_session(
    command: Callable[Concatenate[Session, Parameters], Awaitable[Result]],
) -> Callable[Parameters, Result]:
    """Gives a click command a session as its first argument; raises as `on_database`."""

    @functools.wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        return on_database(lambda session: command(session, *arguments, **options))

    return run


def call(statement: Statement[Result], *values: Any, **options: Any) -> Result:
    """`Session.call` on a connection of its own; raises as `on_database`."""
    return on_database(lambda session: session.call(statement, *values, **options))


def act(statement: Statement[Result], *values: Any, **options: Any) -> Result:
    """`Session.act` on a connection of its own; raises as `on_database`."""
    return on_database(lambda session: session.act(statement, *values, **options))


def on_database(
    work: Callable[[Session], Awaitable[Result]],
    *,
    needs_schema: bool = True,
    settings: Settings | None = None,
    of_session: SessionSettings = COMMAND,
) -> Result:
    """Run `work` on a connection of its own, with the settings `of_session`, and close it.

    Raises ConfigError without a DSN, DatabaseUnavailable, SchemaError unless the schema is there
    (or `needs_schema` is False), and whatever `work` raises; a role without rights is Refused.
    """
    loaded = settings or command_context().load()

    async def run() -> Result:
        connection = await connect(loaded.required_dsn(), of_session)
        on_warning(connection, warn)
        try:
            with answers():
                if needs_schema:
                    await require_revision(connection, loaded.schema)
                session = Session(connection, loaded.schema, _actor(), "cli", socket.gethostname())
                try:
                    done = await work(session)
                except BrokenPipeError as error:
                    raise _NobodyReads from error
                except NotFound as error:
                    raise await _with_suggestion(session, error) from None
            await asyncio.sleep(0)  # warnings arrive in the next turn of the loop
            return done
        except _NobodyReads:
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output") from None  # click ends it
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)

    return asyncio.run(run())


async def _with_suggestion(session: Session, error: NotFound) -> NotFound:
    """The error with the name that is alike, if it is about a schedule, a workflow or a living
    node.
    """
    named = re.fullmatch(r"(schedule|workflow|node) '(.+)' does not exist", error.message)
    if named is None:
        return error
    near = ""
    with suppress(PgcronError), answers():  # a role that may not read the lists
        rows = await session.call(_LISTS[named[1]], limit=_MOST_NAMES)
        near = did_you_mean(named[2], {row["name"] for row in rows})
    return NotFound(error.message + near, error.detail, error.hint)


def _actor() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return None
