"""``pgcron-ha node`` and ``dev``: run a node until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import click
import uvloop

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.cli.web import allow_descriptors, callback_server, run_until_signal, web_server
from pgcron_ha.client import App, load_app
from pgcron_ha.config.settings import Settings
from pgcron_ha.engine.node import Node
from pgcron_ha.engine.process_exit import ForcedExit, bid
from pgcron_ha.executors.process.descendants import MARK, descendants_die_too
from pgcron_ha.operating_system import hide_from_others, kill_processes_with
from pgcron_ha.telemetry import log
from pgcron_ha.version import installed_version

_SWITCH_SECONDS: Final = 0.001
"""How long a handler's thread may keep the interpreter while the engine's waits for it: Python's
own 5 ms are a part of every start and claim that follows a burst of short runs.
"""


@click.command(name="node")
@click.option("--name", "name", metavar="NAME", help="A label; the host's name by default.")
@click.option("--app", "apps", multiple=True, metavar="MODULE:ATTRIBUTE", help="An App to offer.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue to take runs from.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label it announces.")
@click.option("--slots", type=int, help="How many runs may execute at once.")
@click.option("--lease-ttl", metavar="DURATION", help="The lease's time to live, such as 15s.")
@click.option("--state-directory", metavar="DIRECTORY", help="Where the node keeps its lock.")
@click.option("--web", metavar="HOST:PORT", help="Serve the pages, too, on this machine's address.")
@click.option("--callbacks", metavar="HOST:PORT", help="Take services' callbacks there, too.")
def node_command(
    name: str | None,
    apps: tuple[str, ...],
    queues: tuple[str, ...],
    labels: tuple[str, ...],
    slots: int | None,
    lease_ttl: str | None,
    state_directory: str | None,
    web: str | None,
    callbacks: str | None,
) -> int:
    """Run a node until it is stopped.

    SIGTERM and SIGINT drain: no new runs, what runs may end within node.grace, the rest is given
    back. A second signal ends the grace. Exit code 72: a handler did not stop
    (node.on_unresponsive_handler); 71: one went on without a lease.
    """
    flags: dict[str, object] = {
        "node.name": name,
        "node.apps": list(apps) or None,
        "node.queues": list(queues) or None,
        "node.labels": list(labels) or None,
        "node.slots": slots,
        "node.lease_ttl": lease_ttl,
        "node.state_directory": state_directory,
        "web.listen": web,
        "web.callbacks": callbacks,
    }
    settings = command_context().load(flags, named=("node.apps",))
    forced_exit = run_node(settings, pages=web is not None, callbacks=callbacks is not None)
    if forced_exit is not None:
        bid(forced_exit)
    return 0


def run_node(
    settings: Settings, *, pages: bool = False, callbacks: bool = False
) -> ForcedExit | None:
    """Runs a node with these settings in this process, and what it serves beside its work; a
    `ForcedExit` is returned when only the end of the process ends one of its handlers.
    """
    log.set_up(settings.log.format, settings.log.level, log.lasting_stderr())
    sys.setswitchinterval(_SWITCH_SECONDS)
    allow_descriptors()
    apps = [load_app(place) for place in settings.node.apps]
    hide_from_others()
    with descendants_die_too():
        forced_exit = uvloop.run(live(settings, apps, pages, callbacks))
        if forced_exit is not None:
            kill_processes_with(f"{MARK}={os.environ[MARK]}".encode())
    return forced_exit


async def live(
    settings: Settings, apps: list[App], pages: bool, callbacks: bool
) -> ForcedExit | None:
    """One node from its start to its end in order, which a signal begins; the pages end last."""
    node = Node(settings, apps, installed_version())
    servers = [web_server(settings, node.look)] if pages else []
    servers += callback_server(settings) if callbacks else []
    await run_until_signal(node, *servers)
    return node.forced_exit


@click.command(name="dev")
@click.option("--app", "apps", multiple=True, metavar="MODULE:ATTRIBUTE", help="An App to offer.")
def dev_command(apps: tuple[str, ...]) -> int:
    """Run one node on an embedded PostgreSQL, for developing.

    The database is kept from one time to the next. With a DSN (PGCRON_HA_DSN, --dsn or
    pgcron-ha.toml) it works there instead. The schema is brought up to this version.
    """
    # No other node loads what only this one needs.
    from pgcron_ha.demo.database import WorkDatabase
    from pgcron_ha.embedded import default_data_directory

    flags: dict[str, object] = {"node.apps": list(apps) or None}
    settings = command_context().load(flags, named=("node.apps",))
    database = WorkDatabase(settings.dsn, default_data_directory(), settings.schema)
    try:
        asyncio.run(database.up())
        echo(f"database  {database.shown_dsn()}")
        run_node(command_context().load({**flags, "dsn": database.dsn}))
        return 0
    finally:
        asyncio.run(database.down())
