"""``pgcron-ha demo``: watch a few nodes work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.config import load_settings
from pgcron_ha.demo.folder import default_folder
from pgcron_ha.demo.port import free_port
from pgcron_ha.demo.screen import Screen
from pgcron_ha.demo.show import DemoOptions, show_demo

MOST_NODES = 10
_LONGEST_SECONDS = 7 * 86400.0


@click.command(name="demo")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(1, _LONGEST_SECONDS),
    metavar="SECONDS",
    help="End by itself, with a summary: exit 0 only if every due occurrence is accounted for.",
)
@click.option(
    "--nodes", type=click.IntRange(1, MOST_NODES), default=2, show_default=True, help="How many."
)
@click.option("--keep", is_flag=True, help="Go on with the last demo's data; else it begins anew.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="The demo's own folder.  [default: ~/.local/state/pgcron_ha/demo]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where the pages are, on 127.0.0.1.  [default: 8420, or any that is free]",
)
def demo_command(
    seconds: float | None, nodes: int, keep: bool, folder: Path | None, port: int | None
) -> None:
    """Watch two nodes work on an embedded PostgreSQL, and kill one.

    Half a dozen schedules do something real: back up the demo's own database and verify the dump,
    analyze its tables, measure its disk, report on its runs; one fails now and then and is tried
    again, one runs every second. With PGCRON_HA_DSN or --dsn it works in that database, in
    the schema pgcron_demo.
    """

    sources = command_context().read()
    settings = load_settings(sources)
    is_given = sources.values["dsn"].origin in ("environment", "flag")
    options = DemoOptions(
        folder=folder or default_folder(),
        dsn=settings.dsn if is_given else None,
        seconds=seconds,
        nodes=nodes,
        keep=keep,
        port=free_port(port),
    )
    asyncio.run(show_demo(options, Screen()))
