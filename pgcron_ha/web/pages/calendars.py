"""``/calendars``: days that schedules share; what they name next, who uses them, and their text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.db import calendars as doors
from pgcron_ha.db.pages import calendars as ask
from pgcron_ha.db.read_pool import Connection
from pgcron_ha.errors import InvalidInput, NotFound, PgcronError
from pgcron_ha.model.calendar_rules import first_day
from pgcron_ha.model.calendars import read_calendars
from pgcron_ha.web.visit import Visit

DAYS_SHOWN: Final = 20
YEARS_SHOWN: Final = 12
"""A February 29 is at most 8 years away."""
MOST_TEXT: Final = 20_000
"""Of a calendar in a form; longer ones are put by the command line."""
_DAY: Final = timedelta(days=1)


class NamedDay(NamedTuple):
    """A day of a calendar and the note beside it."""

    day: str
    weekday: str
    note: str


@dataclass(frozen=True)
class CalendarsView:
    """``calendars.html``."""

    rows: list[dict[str, Any]]
    most_text: int = MOST_TEXT


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
    most_text: int = MOST_TEXT

    @property
    def is_too_long(self) -> bool:
        """Whether the form can't hold it."""
        return len(self.text) > self.most_text


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
    given = await visit.form("name", "content", longest=MOST_TEXT, keep_empty=True)
    name, text = given.get("name", "").strip(), given.get("content", "").replace("\r\n", "\n")
    try:
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
    found: list[NamedDay] = []
    last_year = max(today.year + YEARS_SHOWN, calendar.last_date_year)
    day = first_day(calendar.days, today, last_year)
    while day is not None and len(found) < DAYS_SHOWN:
        found.append(NamedDay(day.isoformat(), f"{day:%a}", calendar.note(day)))
        day = first_day(calendar.days, day + _DAY, last_year)
    return found
