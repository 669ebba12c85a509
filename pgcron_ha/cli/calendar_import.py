"""``calendars import``: appointments (.ics) as the lines of a calendar."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from pgcron_ha.cli.output import echo, echo_file, plural
from pgcron_ha.cli.session import on_database
from pgcron_ha.db import calendars as doors
from pgcron_ha.errors import InvalidInput
from pgcron_ha.schedule_files.calendar_events import MOST_BYTES
from pgcron_ha.schedule_files.calendar_import import (
    MOST_YEARS_AHEAD,
    YEARS_AHEAD,
    import_calendar,
)

_FILE = click.Path(path_type=Path, allow_dash=True, dir_okay=False)


@click.command("import", short_help="Read a calendar of appointments (.ics).")
@click.argument("file", type=_FILE)
@click.option("--name", help="Of the calendar; without it FILE's own name.")
@click.option("--timezone", help="Whose days events in UTC have; without it the file's, or UTC.")
@click.option(
    "--years",
    type=click.IntRange(0, MOST_YEARS_AHEAD),
    default=YEARS_AHEAD,
    show_default=True,
    help="How far ahead rules are counted out that are no yearly dates.",
)
@click.option("--apply", "apply_now", is_flag=True, help="Make it a calendar now.")
def import_command(
    file: Path, name: str | None, timezone: str | None, years: int, apply_now: bool
) -> None:
    """Turn the events of FILE (iCalendar, RFC 5545) into the lines of a calendar.

    Prints them, or with --apply makes them a calendar; what could not be carried over, and why,
    goes to stderr. Needs the extra "calendars".
    """
    content = _read(file, MOST_BYTES)
    today = datetime.now(UTC).date()
    found = import_calendar(content, file.name, today=today, timezone=timezone, years_ahead=years)
    for loss in found.losses:
        echo(f"{loss.where}: {loss.what}", err=True)
    count = found.carried_over
    echo(f"{plural(count, 'event')} carried over", err=True)
    if apply_now:
        _put(name or re.sub(r"[^A-Za-z0-9_.-]+", "-", file.stem).strip("-_.")[:100], found.content)
    else:
        echo_file(found.content)


def _put(name: str, content: str) -> None:
    on_database(
        lambda s: doors.put_calendar(
            s.connection, name, content, actor=s.actor, door="cli", schema=s.schema
        )
    )
    echo(f"calendar {name} is written")


def _read(file: Path, most: int) -> bytes:
    """Up to one byte more than ``most``, which is refused by whoever reads it."""
    if str(file) == "-":
        return sys.stdin.buffer.read(most + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise InvalidInput(
            f"{file} can't be read", f"{error}.", "Name a file that you may read."
        ) from None
