"""``/calendars``: days that schedules share; what they name next, who uses them, and their text."""

from __future__ import annotations

import json
from datetime import date
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import calendars as interfaces
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, read_calendar, read_calendars
from pgcron_ha.web.address import NoSuch
from pgcron_ha.web.page_request import INTERFACE, PageRequest, verb
from pgcron_ha.web.reading import Snapshot

DAYS_SHOWN: Final = 20
# A browser sends a line's end as two characters.
_LONGEST_SENT: Final = 2 * MOST_CHARACTERS


async def show_calendars(page_request: PageRequest) -> Response:
    """All of them, and a form that makes one."""
    page_request.query()

    snapshot = await page_request.read(("calendars",), ask.calendars)
    return page_request.page(
        "calendars.html",
        snapshot,
        title="Calendars",
        section="schedules",
        rows=snapshot.value,
        most_text=MOST_CHARACTERS,
    )


async def show_calendar(page_request: PageRequest) -> Response:
    """One of them."""
    page_request.query()
    name = page_request.segment("name")

    snapshot = await page_request.read(("calendar", name), _read_calendar, name)
    row, users, parents = snapshot.value
    if row is None:
        rule = "A calendar is named exactly as it was made."
        raise NoSuch("calendar", name, rule, "Look for it in the list of calendars.")
    today = snapshot.now.astimezone(page_request.zone).date()
    problem, days = None, list[tuple[date, str]]()
    try:
        days = _days(name, row["parts"], today)
    except PgcronError as error:
        problem = error
    more = {"users": users, "parents": parents, "days": days, "problem": problem}
    return _page(page_request, name, row["content"], snapshot, title=name, row=row, **more)


async def save(page_request: PageRequest) -> Response:
    """Makes or changes one; errors are shown in the form, which keeps what was typed."""
    given = await page_request.form("name", "content", longest=_LONGEST_SENT, keep_empty=True)
    name, text = given.get("name", "").strip(), given.get("content", "").replace("\r\n", "\n")
    try:
        read_calendar(text)
        await page_request.do(interfaces.put_calendar, name, text, interface=INTERFACE)
    except InvalidInput as problem:
        more = {"status": 400, "row": None, "problem": problem}
        return _page(page_request, name, text, None, title="Calendar", **more)
    return page_request.redirect("calendar", {"done": "calendar_saved"}, name=name)


delete = verb(interfaces.delete_calendar, "calendars", "calendar_deleted")


def _page(
    page_request: PageRequest, name: str, text: str, snapshot: Snapshot[Any] | None, **more: Any
) -> Response:
    """`more` has the problem: why nobody can read it, or why it was not saved."""
    view = {"name": name, "text": text, "most_text": MOST_CHARACTERS, **more}
    return page_request.page("calendar.html", snapshot, section="schedules", **view)


async def _read_calendar(
    connection: Connection, name: str, *, schema: str
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[dict[str, Any]]]:
    """Its row, schedules that use it, calendars that name it."""
    return (
        await ask.calendar(connection, name=name, schema=schema),
        await ask.calendar_users(connection, name=name, schema=schema),
        await ask.calendar_parents(connection, name=name, schema=schema),
    )


def _days(name: str, contents: str, today: date) -> list[tuple[date, str]]:
    """The next days that it names; raises `InvalidCalendar` for what nobody can read."""
    calendar = read_calendars(tuple(sorted(json.loads(contents).items())))[name]
    return calendar.next_days(today, DAYS_SHOWN)
