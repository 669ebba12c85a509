"""Which time zones ``pgcron-ha next`` computes with: the cluster's where there is a database."""

from __future__ import annotations

from typing import Final

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.zone_data import package_version, version_in_force

_ASKED: Final = "pgcron_ha.zones_were_asked"


def agree_on(timezone: str) -> None:
    """Before fires in a zone are computed: asks the database, once. Says on stderr whether the
    nodes compute with others than are installed here, and goes on without a database.
    """
    known = click.get_current_context().meta
    if timezone != "UTC" and _ASKED not in known:  # UTC has no rules
        known[_ASKED] = True
        _agree()


def _agree() -> None:
    try:
        if command_context().load().dsn is None:
            return
        on_database(_nothing, uses_zones=True)
    except PgcronError as error:
        echo(
            f"note: these are the time zones installed here (tzdata {package_version()}); those of"
            f" the nodes could not be read: {error.message}",
            err=True,
        )
        return
    if version_in_force() != package_version():
        echo(
            f"note: these are the time zones that the nodes compute with (tzdata"
            f" {version_in_force()}); installed here is {package_version()}",
            err=True,
        )


async def _nothing(session: Session) -> None:
    """Being told the zones is all that is asked."""
