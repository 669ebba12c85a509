"""``pgcron-ha node`` and ``dev``: run a node until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import click
import uvloop

from pgcron_ha.cli import web
from pgcron_ha.cli.arguments import flag, option
from pgcron_ha.cli.context import CommandContext, command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.client.loading import load_app
from pgcron_ha.config.settings import BY_KEY, Settings
from pgcron_ha.config.values import Address
from pgcron_ha.engine.node import Node
from pgcron_ha.engine.process_exit import ForcedExit, bid
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.process.supervisor_client import MARK, descendants_die_too
from pgcron_ha.operating_system import hide_from_others, kill_processes_with
from pgcron_ha.telemetry import log
from pgcron_ha.version import installed_version

_SWITCH_SECONDS: Final = 0.001
"""How long a handler's thread may keep the interpreter while the engine's waits for it: Python's
own 5 ms are a part of every start and claim that follows a burst of short runs.
"""


def _of(key: str, words: str, metavar: str, name: str | None = None) -> Callable[[Any], Any]:
    """The option of a setting, which may be given several times where that is a list."""
    flag, is_list = BY_KEY[key].flag, BY_KEY[key].is_list
    into = key.replace(".", "_")
    return option(name or flag, words, into=into, metavar=metavar, multiple=is_list)


_apps = _of("node.apps", "An App to offer.", "MODULE:ATTRIBUTE")


def as_settings(given: Mapping[str, Any]) -> dict[str, object]:
    """The setting ``node.lease_ttl`` for the parameter ``node_lease_ttl``; None: not given."""
    return {
        name.replace("_", ".", 1): (list(value) or None) if isinstance(value, tuple) else value
        for name, value in given.items()
    }


@click.command(name="node")
@_of("node.name", "What it is called; the host's name by default.", "NAME")
@_apps
@_of("node.queues", "A queue to take runs from.", "NAME")
@_of("node.labels", "A label that it announces.", "KEY=VALUE")
@_of("node.slots", "How many runs may execute at once.", "INTEGER")
@_of("node.lease_ttl", "Time to live of the lease, such as 15s.", "DURATION")
@_of("node.state_directory", "Where the node keeps its lock.", "DIRECTORY")
@_of("web.listen", "Serve the pages, too, on this machine.", "HOST:PORT", "--web")
@_of("web.callbacks", "Take services' callbacks, too.", "HOST:PORT")
@_of("ops.listen", "Serve probes and metrics, too.", "HOST:PORT", "--ops")
def node_command(**given: Any) -> int:
    """Run a node until it is stopped.

    SIGTERM and SIGINT drain: no new runs, what runs may end within node.grace, the rest is given
    back. A second signal ends the grace. Exit code 72: a handler did not stop
    (node.on_unresponsive_handler); 71: one went on without a lease.
    """
    flags = as_settings(given)
    settings = command_context().load(flags, named=("node.apps",))
    pages, callbacks = (flags[key] is not None for key in ("web.listen", "web.callbacks"))
    forced_exit = run_node(settings, pages, callbacks)
    if forced_exit is not None:
        bid(forced_exit)
    return 0


def run_node(
    settings: Settings, pages: bool = False, callbacks: bool = False, cookie: str | None = None
) -> ForcedExit | None:
    """Runs a node with these settings in this process, and what it serves beside its work, to
    browsers that have the `cookie`, too; a `ForcedExit` is returned when only the end of the
    process ends one of its handlers.
    """
    log.set_up(settings.log.format, settings.log.level, log.lasting_stderr())
    sys.setswitchinterval(_SWITCH_SECONDS)
    web.warn_of_unprotected(settings)
    web.allow_descriptors()
    apps = [load_app(place) for place in settings.node.apps]
    hide_from_others()

    async def live() -> ForcedExit | None:
        """From its start to its end in order, which a signal begins; the pages end last."""
        node = Node(settings, apps, installed_version())
        if pages:
            servers = web.page_servers(settings, node.look, cookie)
        else:
            servers = web.ops_server(settings, node.look)
        servers += web.callback_server(settings) if callbacks else []
        await web.run_until_signal(node, *servers)
        return node.forced_exit

    with descendants_die_too():
        forced_exit = uvloop.run(live())
        if forced_exit is not None:
            kill_processes_with(f"{MARK}={os.environ[MARK]}".encode())
    return forced_exit


@click.command(name="dev")
@_apps
@option("--web HOST:PORT", "Where to serve the pages.", into="web_listen")
@flag("--reload", "Start the node again when a Python file changes here.")
def dev_command(reload: bool, **given: Any) -> int:
    """Run one node and its pages on an embedded PostgreSQL, for developing.

    The database is kept from one time to the next, in pgcron_ha/embedded of XDG_STATE_HOME or of
    ~/.local/state (of root in /var/lib), and its schema brought up to this version. Each user has
    one, for all projects: "schedules delete" removes what another project has left. While
    it runs, commands of this user that are given no database work on this one. With a DSN
    (PGCRON_HA_DSN, --dsn or pgcron-ha.toml) it works there instead. Handlers find the database in
    PGCRON_HA_DSN.
    """
    # No other node loads what only this one needs.
    from pgcron_ha.demo.folder import WorkDatabase
    from pgcron_ha.embedded import default_data_directory

    flags = as_settings(given)
    context = command_context()
    settings = context.load(flags, named=("node.apps",), finds_server=False)
    database = WorkDatabase(settings.dsn, default_data_directory(), settings.schema)
    try:
        asyncio.run(database.up())
        echo(f"database  {database.shown_dsn()}")
        if database.is_embedded:
            echo("          (commands in other terminals find it by themselves)")
            echo("try       pgcron-ha schedules list, pgcron-ha enqueue py:HANDLER --wait")
        os.environ[BY_KEY["dsn"].variable] = database.dsn  # handlers find it there, too
        if flags["web.listen"] is None:
            usual = settings.web.listen
            port = web.free_port(usual.port if isinstance(usual, Address) else 0)
            flags |= {"web.listen": f"127.0.0.1:{port}"}
        if reload:
            from uvicorn import Config
            from uvicorn.supervisors import ChangeReload

            cookie = secrets.token_urlsafe(32)  # who is in stays in
            run = partial(_run_until_changed, context, flags, cookie)
            # In a process of its own, started again when a Python file in this folder changes.
            ChangeReload(Config("", reload=True, log_config=None), target=run, sockets=[]).run()
        else:
            run_node(context.load(flags), pages=True)
        return 0
    finally:
        asyncio.run(database.down())


def _run_until_changed(
    context: CommandContext, flags: Mapping[str, object], cookie: str, sockets: object
) -> None:
    """What is wrong with a file is printed; its next change is another try."""
    from pgcron_ha.cli.main import print_error

    try:
        run_node(context.load(flags), pages=True, cookie=cookie)
    except PgcronError as error:
        print_error(error)
