"""``pgcron-ha calendars``: days that schedules share, such as holidays."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final, TextIO

import click

from pgcron_ha.cli import arguments, output
from pgcron_ha.cli.output import columns, echo, plural
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.db.commands import calendars as interfaces
from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, read_calendar, read_calendars
from pgcron_ha.spec.spec import calendars_in

COLUMNS = columns("NAME:32 SCHEDULES VERSION CHANGED=updated_at BY=updated_by:20 SOURCE:20")
_MOST_USERS: Final = 20
_NEXT_DAYS: Final = 10


@click.group("calendars", cls=arguments.JsonGroup)
def calendars_group() -> None:
    """Keep holidays and other days that schedules share."""


@calendars_group.command("list")
@arguments.limit_option()
def list_command(limit: int) -> None:
    """List calendars by name, and how many schedules use each."""
    output.print_rows(call(interfaces.calendars, limit=limit), COLUMNS, "no calendars")


@calendars_group.command("show")
@click.argument("name")
async def show_command(session: Session, name: str) -> None:
    """Show a calendar, who uses it and its next days."""
    found = await session.call(interfaces.calendar, name)
    users = await session.call(interfaces.users_of_calendar, name, limit=_MOST_USERS)
    parts = calendars_in(found.pop("parts"))
    days: list[tuple[date, str]] = []
    try:
        days = read_calendars(parts)[name].next_days(datetime.now(UTC).date(), _NEXT_DAYS)
    except InvalidInput as error:  # plain SQL may write what is no calendar
        echo(f"note: {error.message}", err=True)
    reported = [{"day": day.isoformat(), "note": note} for day, note in days]
    output.report({**found, "used_by": users, "next_days": reported})
    content = found.pop("content")
    output.print_fields({**found, "used_by": ", ".join(users) or None})
    echo()
    echo(content.strip("\n"))
    echo()
    for day, note in days:
        echo(f"{day:%a %Y-%m-%d}  {note}".rstrip())


@calendars_group.command("put")
@click.argument("name")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@arguments.flag("--take-over", "Take it over from the files that define it.")
async def put_command(session: Session, name: str, file: TextIO, take_over: bool) -> None:
    """Make or change the calendar NAME.

    FILE ("-": stdin) has a rule in each line. Lines are dates ("2026-12-24..2027-01-01 # closed"),
    dates of each year ("yearly 12-25", "yearly easter+1", "yearly 11-thu#4"), days of the week
    ("sat,sun"), "calendar OTHER", or "not" and any of these. The future runs of the schedules that
    use it are made again.
    """
    try:
        content = file.read(MOST_CHARACTERS + 1)  # which shows that it is too long for a calendar
    except (UnicodeDecodeError, OSError) as error:
        raise arguments.unreadable("the file", error) from None
    read_calendar(content)
    await session.act(interfaces.put_calendar, name, content, take_over=take_over)
    found = await session.call(interfaces.calendar, name)
    version, users = found["version"], found["schedules"]
    used = f"used by {plural(users, 'schedule')}" if users else "no schedule uses it"
    output.print_result(
        {"calendar": name, "version": version, "schedules": users},
        f"calendar '{name}' is version {version}, {used}",
    )


@calendars_group.command("delete")
@click.argument("name")
def delete_command(name: str) -> None:
    """Delete a calendar that nobody uses."""
    act(interfaces.delete_calendar, name)
    output.print_result({"calendar": name, "done": "deleted"}, f"calendar '{name}' is deleted")
