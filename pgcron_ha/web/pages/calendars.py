"""``/calendars``: days that schedules share; what they name next, who uses them, and their text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.db.commands import calendars as doors
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import calendars as ask
from pgcron_ha.errors import InvalidInput, NotFound, PgcronError
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, read_calendar, read_calendars
from pgcron_ha.web.visit import Visit

DAYS_SHOWN: Final = 20
# A browser sends a line's end as two characters.
_LONGEST_SENT: Final = 2 * MOST_CHARACTERS


class NamedDay(NamedTuple):
    """A day of a calendar and the note beside it."""

    day: str
    weekday: str
    note: str


@dataclass(frozen=True)
class CalendarsView:
    """``calendars.html``."""

    rows: list[dict[str, Any]]
    most_text: int = MOST_CHARACTERS


@dataclass(frozen=True)
class CalendarView:
    """``calendar.html``; `row` is None for one that could not be made, `problem` says why."""

    name: str
    text: str
    row: dict[str, Any] | None
    users: list[dict[str, Any]]
    parents: list[dict[str, Any]]
    days: list[NamedDay]
    problem: PgcronError | None = None
    most_text: int = MOST_CHARACTERS


async def show_calendars(visit: Visit) -> Response:
    """All of them, and a form that makes one."""
    visit.query()

    async def read(connection: Connection) -> list[dict[str, Any]]:
        return await ask.calendars(connection, schema=visit.schema)

    snapshot = await visit.read(("calendars",), read)
    if (drawn := visit.drawn(snapshot)) is not None:
        return drawn
    view = CalendarsView(snapshot.value)
    return visit.page("calendars.html", view, snapshot, title="Calendars", section="schedules")


async def show_calendar(visit: Visit) -> Response:
    """One of them."""
    visit.query()
    name = visit.segment("name")

    async def read(connection: Connection) -> ask.Found | None:
        return await ask.one(connection, name, schema=visit.schema)

    snapshot = await visit.read(("calendar", name), read)
    if (drawn := visit.drawn(snapshot)) is not None:
        return drawn
    found = snapshot.value
    if found is None:
        raise NotFound(
            f"calendar '{name[:200]}' does not exist",
            "A calendar is named exactly as it was made.",
            "Look for it in the list of calendars.",
        )
    view = CalendarView(
        name,
        found.row["content"],
        *found,
        _days(name, found.row["contents"], snapshot.now.astimezone(visit.zone).date()),
    )
    return visit.page("calendar.html", view, snapshot, title=name, section="schedules")


async def save(visit: Visit) -> Response:
    """Makes or changes one; what is wrong is told in the form, which keeps what was typed."""
    given = await visit.form("name", "content", longest=_LONGEST_SENT, keep_empty=True)
    name, text = given.get("name", "").strip(), given.get("content", "").replace("\r\n", "\n")
    try:
        read_calendar(text)
        await visit.act(
            lambda connection: doors.put_calendar(
                connection, name, text, actor=visit.actor, door=visit.door, schema=visit.schema
            )
        )
    except InvalidInput as problem:
        view = CalendarView(name, text, None, [], [], [], problem)
        return visit.page(
            "calendar.html", view, None, title="Calendar", section="schedules", status=400
        )
    return visit.redirect("calendar", {"done": "calendar_saved"}, name=name)


async def delete(visit: Visit) -> Response:
    """Deletes one that nobody uses."""
    name = visit.segment("name")
    await visit.form()
    await visit.act(
        lambda connection: doors.delete_calendar(
            connection, name, actor=visit.actor, schema=visit.schema
        )
    )
    return visit.redirect("calendars", {"done": "calendar_deleted"})


def _days(name: str, contents: str, today: date) -> list[NamedDay]:
    """The next days that it names; none if this version can't read it."""
    try:
        calendar = read_calendars(tuple(sorted(json.loads(contents).items())))[name]
    except PgcronError:
        return []
    return [
        NamedDay(day.isoformat(), f"{day:%a}", note)
        for day, note in calendar.next_days(today, DAYS_SHOWN)
    ]
