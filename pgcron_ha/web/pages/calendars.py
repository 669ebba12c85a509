"""``/calendars``: days that schedules share; what they name next, who uses them, and their text."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import calendars as interfaces
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, read_calendar, read_calendars
from pgcron_ha.spec.spec import calendars_in
from pgcron_ha.web.failures import IN_FORM, status_in_form
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.reading import Snapshot
from pgcron_ha.web.verbs import verb

DAYS_SHOWN: Final = 20
# Its row, schedules that use it, calendars that name it.
_ASKED: Final = together(interfaces.calendar, interfaces.users_of_calendar, ask.calendar_parents)


async def show_calendars(page_request: PageRequest) -> Response:
    """All of them, and a form that makes one."""
    page_request.query()

    snapshot = await page_request.read("calendars", ask.calendars)
    return page_request.page(
        "calendars.html",
        snapshot,
        title="Calendars",
        rows=snapshot.value,
        most_text=MOST_CHARACTERS,
    )


async def show_calendar(page_request: PageRequest) -> Response:
    """One of them."""
    page_request.query()
    name = page_request.segments["name"]

    snapshot = await page_request.read("calendar", _ASKED, name)
    row, users, parents = snapshot.value
    today = snapshot.now.astimezone(page_request.zone).date()
    problem, days = None, list[tuple[date, str]]()
    try:
        days = read_calendars(calendars_in(row["parts"]))[name].next_days(today, DAYS_SHOWN)
    except PgcronError as error:
        problem = error
    more = {"users": users, "parents": parents, "days": days, "problem": problem}
    return _page(page_request, name, row["content"], snapshot, title=name, row=row, **more)


async def save(page_request: PageRequest) -> Response:
    """Makes or changes one; errors are shown in the form, which keeps what was typed."""
    given = await page_request.form("name", "content", keep_empty=True)
    name, text = given.get("name", "").strip(), given.get("content", "").replace("\r\n", "\n")
    try:
        read_calendar(text)
        await page_request.do(interfaces.put_calendar, name, text)
    except IN_FORM as problem:
        status = status_in_form(page_request, problem)
        more = {"status": status, "row": None, "problem": problem}
        return _page(page_request, name, text, None, title="Calendar", **more)
    return page_request.redirect("calendar", "calendar_saved", name=name)


delete = verb(interfaces.delete_calendar, "calendars", "calendar_deleted")


def _page(
    page_request: PageRequest, name: str, text: str, snapshot: Snapshot[Any] | None, **more: Any
) -> Response:
    """`more` has the problem: why nobody can read it, or why it was not saved."""
    view = {"name": name, "text": text, "most_text": MOST_CHARACTERS, **more}
    return page_request.page("calendar.html", snapshot, **view)
