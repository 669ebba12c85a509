"""``/calendars``: days that schedules share; what they name next, who uses them, and their text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.db.commands import calendars as interfaces
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import calendars as ask
from pgcron_ha.errors import InvalidInput, NotFound, PgcronError
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, read_calendar, read_calendars
from pgcron_ha.web.page_request import PageRequest

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


async def show_calendars(page_request: PageRequest) -> Response:
    """All of them, and a form that makes one."""
    page_request.query()

    async def read(connection: Connection) -> list[dict[str, Any]]:
        return await ask.calendars(connection, schema=page_request.schema)

    snapshot = await page_request.read(("calendars",), read)
    if (drawn := page_request.drawn(snapshot)) is not None:
        return drawn
    view = CalendarsView(snapshot.value)
    return page_request.page(
        "calendars.html", view, snapshot, title="Calendars", section="schedules"
    )


async def show_calendar(page_request: PageRequest) -> Response:
    """One of them."""
    page_request.query()
    name = page_request.segment("name")

    async def read(connection: Connection) -> ask.Found | None:
        return await ask.one(connection, name, schema=page_request.schema)

    snapshot = await page_request.read(("calendar", name), read)
    if (drawn := page_request.drawn(snapshot)) is not None:
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
        _days(name, found.row["contents"], snapshot.now.astimezone(page_request.zone).date()),
    )
    return page_request.page("calendar.html", view, snapshot, title=name, section="schedules")


async def save(page_request: PageRequest) -> Response:
    """Makes or changes one; what is wrong is told in the form, which keeps what was typed."""
    given = await page_request.form("name", "content", longest=_LONGEST_SENT, keep_empty=True)
    name, text = given.get("name", "").strip(), given.get("content", "").replace("\r\n", "\n")
    try:
        read_calendar(text)
        await page_request.act(
            lambda connection: interfaces.put_calendar(
                connection,
                name,
                text,
                actor=page_request.actor,
                interface=page_request.interface,
                schema=page_request.schema,
            )
        )
    except InvalidInput as problem:
        view = CalendarView(name, text, None, [], [], [], problem)
        return page_request.page(
            "calendar.html", view, None, title="Calendar", section="schedules", status=400
        )
    return page_request.redirect("calendar", {"done": "calendar_saved"}, name=name)


async def delete(page_request: PageRequest) -> Response:
    """Deletes one that nobody uses."""
    name = page_request.segment("name")
    await page_request.form()
    await page_request.act(
        lambda connection: interfaces.delete_calendar(
            connection, name, actor=page_request.actor, schema=page_request.schema
        )
    )
    return page_request.redirect("calendars", {"done": "calendar_deleted"})


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
