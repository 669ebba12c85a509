"""``/runs``: which runs are there, filtered by an address that can be sent to others."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import RedirectResponse, Response

from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import database_time
from pgcron_ha.db.queries.pages import runs as ask
from pgcron_ha.db.queries.pages.runs import STATE_GROUPS, STATE_WORDS, Position, RunFilter, RunPage
from pgcron_ha.errors import NotFound
from pgcron_ha.model.formats import plain
from pgcron_ha.web.address import choice, label_filters, written_instant, wrong_page
from pgcron_ha.web.page_request import PageRequest

_STATES: Final[tuple[str, ...]] = tuple(dict.fromkeys((*STATE_GROUPS, *STATE_WORDS)))
_NAMED: Final[tuple[str, ...]] = ("schedule", "handler", "queue", "node")
_FILTERS: Final[tuple[str, ...]] = ("state", *_NAMED, "owner", "tag", "error", "since", "until")
# Suggestions change rarely, and all lists show the same.
_CHOICES_LIFE_SECONDS: Final = 10.0
_POSITION: Final = re.compile(r"(?:([0-9T:.+-]{20,32}Z?)~|([0-9]{1,19})\.)([0-9]{1,19})")


async def show_runs(page_request: PageRequest) -> Response:
    """The list; every filter is in the address, ``before`` is where a page begins."""
    given = page_request.query(*_FILTERS, "before", "find")
    if "find" in given:
        return await _jump(page_request, given["find"])
    wanted, position = _wanted(given), _position(given.get("before"))
    choices = await page_request.read("run_choices", ask.choices, life=_CHOICES_LIFE_SECONDS)
    zone = page_request.zone
    snapshot = await page_request.gather("runs", _read_listing, wanted, given, zone, position)
    page = snapshot.value
    filters = {name: given[name] for name in _FILTERS if name in given}
    return page_request.page(
        "runs.html",
        snapshot,
        title="Runs",
        page=page,
        # How many were looked at counts those of others.
        sees_all=page_request.person.scopes("runs:read") is None,
        tabs=page_request.choices("runs", "state", (None, *STATE_GROUPS), filters),
        words={"state": _STATES},
        # Names that are what they look like; the others have links on their own pages.
        known={
            name: [each for each in choices.value[f"{name}s"] if plain(each) == each]
            for name in _NAMED
        },
        is_empty=not page.rows and not given,
        **page_request.listed("runs", _FILTERS, given, "before", page.next and _cursor(page.next)),
    )


async def _read_listing(
    session: Session, wanted: RunFilter, given: dict[str, str], zone: ZoneInfo, position: Position
) -> RunPage:
    """One page of runs since and until what is given. InvalidInput."""
    now = await session.call(database_time)
    times = (given.get("since"), given.get("until"))
    since, until = (text and written_instant(text, zone, now) for text in times)
    wanted = replace(wanted, since=since or ask.LONG_AGO, until=until or ask.FAR_AHEAD)
    known = await session.call(ask.schedule_id, name=wanted.schedule)
    # A schedule that was deleted left runs with its name, which no index knows.
    if known is not None and (position == Position() or position.at is not None):
        page = await session.call(ask.runs_of_schedule, known["id"], wanted, position)
    else:
        page = await session.call(ask.newest_runs, wanted, position)
    return replace(page, rows=await session.call(ask.detailed, page))


async def _jump(page_request: PageRequest, text: str) -> Response:
    """To the run of a number or of an idempotency key."""
    text = text.strip()
    if text.isdecimal() and len(text) <= 18:
        return RedirectResponse(page_request.link("run", id=int(text)), 303)
    found = await page_request.read("run_of_key", ask.run_of_key, key=text)
    if found.value is None:
        raise NotFound(
            f"no run has the idempotency key '{text[:200]}'",
            "A key names its run as long as it lives, a day if nothing else was said.",
            "Look for the run by its number or by the filters of the list.",
        )
    return RedirectResponse(page_request.link("run", id=found.value["run_id"]), 303)


def _wanted(given: dict[str, str]) -> RunFilter:
    state = choice(given.get("state"), _STATES, "state")
    states = STATE_GROUPS.get(state or "", (state,) if state else STATE_WORDS)
    named: dict[str, Any] = {name: given.get(name) for name in (*_NAMED, "error")}
    return RunFilter(states=states, is_open=state == "attention", **label_filters(given), **named)


def _position(text: str | None) -> Position:
    if text is None:
        return Position()
    match = _POSITION.fullmatch(text)
    try:
        if match is not None:
            live, ended = int(match[2] or 0), int(match[3])
            at = None if match[1] is None else datetime.fromisoformat(match[1])
            if max(live, ended) <= ask.HIGHEST_ID and (at is None or at.tzinfo is not None):
                return Position(live, ended, at)
    except ValueError:
        pass
    raise wrong_page(text, "this list", "A page begins below the numbers of runs.")


def _cursor(position: Position) -> str:
    if position.at is None:
        return f"{position.live}.{position.ended}"
    return f"{position.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}~{position.ended}"
