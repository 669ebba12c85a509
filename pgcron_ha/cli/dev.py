"""``pgcron-ha dev``: one node in the foreground, on a database that is simply there."""

from __future__ import annotations

import asyncio

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.node import run_node
from pgcron_ha.cli.output import echo
from pgcron_ha.demo.database import WorkDatabase
from pgcron_ha.embedded import default_data_directory


@click.command(name="dev")
@click.option("--app", "apps", multiple=True, metavar="MODULE:ATTRIBUTE", help="An App to offer.")
def dev_command(apps: tuple[str, ...]) -> int:
    """Run one node on an embedded PostgreSQL, for developing.

    The database is kept from one time to the next. With a DSN (PGCRON_HA_DSN, --dsn or
    pgcron-ha.toml) it works there instead. The schema is brought up to this version.
    """
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
