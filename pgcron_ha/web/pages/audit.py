"""``/audit``: who did what, filtered by an address that can be sent to others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import audit as ask
from pgcron_ha.db.queries.overview import database_time
from pgcron_ha.db.queries.pages.runs import HIGHEST_ID
from pgcron_ha.db.queries.rows import BoundedPage, Row
from pgcron_ha.web.address import choice, cursor_instant, whole_number, written_instant, wrong_page
from pgcron_ha.web.page_request import PageRequest

_FILTERS: Final[tuple[str, ...]] = (*ask.FILTERS, "since", "until")
# Whose page the name of a row is: the route, and how it calls the name.
_PAGES: Final = {
    **dict.fromkeys(("run", "step"), ("run", "id")),
    **dict.fromkeys(("schedule", "occurrence"), ("schedule", "name")),
    **{kind: (kind, "name") for kind in ("queue", "calendar", "workflow")},
    "backfill": ("backfill", "id"),
}


async def show_audit(page_request: PageRequest) -> Response:
    """The list; every filter is in the address, ``before`` is where a page begins."""
    given = page_request.query(*_FILTERS, "before")
    for name, words in ask.WORDS.items():
        choice(given.get(name), words, name)
    begin = _position(given.pop("before", None))
    snapshot = await page_request.gather("audit", _read, given, begin, page_request.zone)
    page = snapshot.value
    following = page.next and f"{page.next[0].astimezone(UTC).isoformat()}~{page.next[1]}"
    return page_request.page(
        "audit.html",
        snapshot,
        title="Audit",
        rows=[_shown(page_request, row) for row in page.rows],
        page=page,
        words=ask.WORDS,
        **page_request.listed("audit", _FILTERS, given, "before", following),
    )


async def _read(
    session: Session, given: dict[str, str], begin: tuple[datetime, int] | None, zone: ZoneInfo
) -> BoundedPage[tuple[datetime, int]]:
    now = await session.call(database_time)
    known = [name for name in ("since", "until") if name in given]
    times: dict[str, Any] = {name: written_instant(given[name], zone, now) for name in known}
    return await session.call(ask.audited, begin=begin, **{**given, **times})


def _shown(page_request: PageRequest, row: Row) -> dict[str, Any]:
    """A row, the page of what it names, and what changed."""
    route, segment = _PAGES.get(row["kind"], ("", ""))
    is_there = row["name"] and (segment == "name" or whole_number(row["name"], HIGHEST_ID))
    href = page_request.link(route, **{segment: row["name"]}) if route and is_there else None
    return {**row, "href": href, "changes": ask.change_words(row)}


def _position(text: str | None) -> tuple[datetime, int] | None:
    if text is None:
        return None
    at, _, number = text.partition("~")
    instant, row = cursor_instant(at, "this list"), whole_number(number, HIGHEST_ID)
    if instant is None or row is None:
        raise wrong_page(text, "this list", "A page begins before an instant and a number.")
    return instant, row
