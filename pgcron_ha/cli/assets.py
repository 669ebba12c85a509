"""``pgcron-ha assets``: list what was updated, and the schedules on it."""

from __future__ import annotations

from typing import Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import columns, print_rows
from pgcron_ha.cli.session import call
from pgcron_ha.db.queries import overview

COLUMNS: Final = columns("NAME:40 UPDATES UPDATED_AT:20 UPDATED_BY:24 METADATA:40 SCHEDULES:60")


@click.group("assets", cls=arguments.JsonGroup)
def assets_group() -> None:
    """Assets whose updates run schedules."""


@assets_group.command("list")
@arguments.limit_option()
def list_command(limit: int) -> None:
    """List assets by name: the last update, the schedules on it."""
    print_rows(call(overview.assets, limit=limit), COLUMNS, "no assets")
