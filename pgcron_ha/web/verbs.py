"""Verbs: a POST that is one command on what the address names, with the fields of its form; and
their buttons on the page of what it names.

A field is called as the command's parameter is. How its text becomes a value is said by a `Field`;
a field without one is a text, and None when it was left empty.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.client.checks import args_text, parsed_json
from pgcron_ha.client.fires import require_fire
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import database_time, schedule
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import capital
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.address import NoSuch, written_end, written_instant
from pgcron_ha.web.page_request import Ask, Endpoint, PageRequest
from pgcron_ha.web.reading import Snapshot


class Field(NamedTuple):
    """A field of a form, and how its text (empty: it was not given) is read, beside the schedule
    that the address names, with the database's clock as ``now`` (nothing if `has_times` is not
    set). InvalidInput.
    """

    name: str
    read: Callable[[str, Row], Any] = lambda text, row: text or None
    has_times: bool = False


def verb(
    command: Ask[Any], shows: str, done: str | Mapping[str, str], *fields: str | Field, **more: Any
) -> Endpoint:
    """A verb that is one command: ``command(connection, *segments, **fields, **more)``.

    Then it shows the page `shows` with the notice `done`, which may depend on what the command
    gave: a verdict without a notice in `done` is its own.
    """

    async def endpoint(page_request: PageRequest) -> Response:
        found = await page_request.act(await _work(page_request, command, fields, more))
        notice = done if isinstance(done, str) else done.get(found, found)
        return page_request.redirect(shows, notice, **page_request.segments)

    return endpoint


def run_verb(command: Ask[int], done: str, *fields: str | Field) -> Endpoint:
    """As `verb`, of a command that makes a run: shows that run (`PageRequest.make_run`)."""

    async def endpoint(page_request: PageRequest) -> Response:
        return await page_request.make_run(await _work(page_request, command, fields, {}), done)

    return endpoint


def page_with_verbs(
    page_request: PageRequest,
    route: str,
    snapshot: Snapshot[Any],
    verbs: Mapping[str, bool],
    title: str,
    **view: Any,
) -> Response:
    """The page of a route with a button for each of its `verbs` that can be done now. A button
    leads to ``?verb=``, the page of that verb, which says what it will do and asks for it; from one
    that can't be done now it leads back. NotFound.
    """
    asked = page_request.request.query_params.get("verb") or None
    if asked is not None and asked not in verbs:
        rule = f"The verbs of a {route} are {', '.join(verbs)}."
        raise NoSuch(
            "verb", asked, rule, hint="Its page has a button for each that can be done now."
        )
    if asked is not None and not verbs[asked]:
        return page_request.redirect(route, None, **page_request.segments)
    view["verbs"], view["verb"] = [word for word, may in verbs.items() if may], asked
    title = title if asked is None else f"{capital(asked.replace('_', ' '))} · {title}"
    is_still = asked is not None
    return page_request.page(f"{route}.html", snapshot, title=title, is_still=is_still, **view)


async def _work(
    page_request: PageRequest,
    command: Ask[Any],
    fields: tuple[str | Field, ...],
    more: Mapping[str, Any],
) -> Callable[[Session], Awaitable[Any]]:
    """The command with what the form says, as something to do in a transaction."""
    known = [field if isinstance(field, Field) else Field(field) for field in fields]
    given = await page_request.form(*(field.name for field in known))
    of = page_request.segments

    async def work(session: Session) -> Any:
        row: Row = {}
        if any(field.has_times for field in known):
            row = await session.call(schedule, of["name"])
            row["now"] = await session.call(database_time)
        values = {name: read(given.get(name, ""), row) for name, read, _ in known}
        return await session.act(command, *of.values(), **values, **more)

    return work


def _instant(text: str, row: Row) -> datetime:
    return written_instant(text, load_zone(row["timezone"]), row["now"], direction=1)


def _fire(text: str, row: Row) -> datetime:
    at = _instant(text, row)
    require_fire(row, at)
    return at


def _past(text: str, row: Row) -> datetime | None:
    return written_instant(text, load_zone(row["timezone"]), row["now"]) if text else None


def _end(text: str, row: Row) -> Any:
    return written_end(text, load_zone(row["timezone"]), row["now"]) if text else None


def _json(text: str, row: Row) -> str | None:
    if text:
        parsed_json("", text, 'Write for example {"rows": 3}.')
    return text or None


# Instants of a schedule, without an offset by its clock: a fire to come, whatever somebody did to
# one, when it is due instead, the fire time of a run, and when a pause ends (2h: from now).
FIRE: Final = Field("fire_time", _fire, has_times=True)
CHANGED_FIRE: Final = Field("fire_time", _instant, has_times=True)
DUE_AT: Final = Field("due_at", _instant, has_times=True)
FIRE_TIME: Final = Field("fire_time", _past, has_times=True)
UNTIL: Final = Field("until", _end, has_times=True)
ARGS: Final = Field("args", lambda text, row: args_text(text))
START_ARGS: Final = Field("args", lambda text, row: args_text(text or "{}"))
PAYLOAD: Final = Field("payload", _json)
RESULT: Final = Field("result", _json)
