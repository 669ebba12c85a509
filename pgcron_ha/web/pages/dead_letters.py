"""``/dead``: what are the causes, is it getting worse, and sending a dead letter again, or
closing it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.pages import dead_letters as ask
from pgcron_ha.db.queries.pages.overview import open_letters
from pgcron_ha.db.queries.rows import Row, Rows
from pgcron_ha.web.address import choice, first_of, whole_cursor
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.verbs import run_verb

# In addresses: letters whose run ended without a class of error.
NO_CLASS: Final = "(none)"
# What names the letters of a cause in the forms that redrive or archive them, and in statements.
_CAUSE: Final = {
    **{"handler": "handler", "class": "error_class", "group": "fingerprint", "queue": "queue"},
    **{"schedule": "schedule", "tag": "tags", "owner": "owner"},
}
_FILTERS: Final[tuple[str, ...]] = ("state", *_CAUSE)
# How many of them become due in a minute; without one all do at once.
RATES: Final = ("1", "10", "60", "600")
# A cause with more is redriven, or archived, by pressing again.
_MOST_DONE: Final = 10 * functions.MOST_AT_ONCE
_MOST_RUN: Final = 2**63 - 1


async def show_dead_letters(page_request: PageRequest) -> Response:
    """Causes, and the letters one by one; filters and the page (``before``) live in the address."""
    given = page_request.query(*_FILTERS, "before")
    state = choice(given.get("state"), ask.STATES, "state") or "open"
    rule = "A page begins after a run's number."
    before = whole_cursor(given.get("before"), _MOST_RUN, "the dead letters", rule)
    wanted = {"state": state, **_cause(given)}
    snapshot = await page_request.gather("dead", _read_letters, wanted, before)
    groups, letters, open_now = snapshot.value
    filters = {name: given[name] for name in _FILTERS if name in given}
    shown, after = first_of(letters, ask.PAGE_ROWS, "run_id")
    return page_request.page(
        "dead_letters.html",
        snapshot,
        title="Dead letters",
        groups=[_group(page_request, row, filters) for row in groups],
        letters=shown,
        states=page_request.choices("dead", "state", ask.STATES, {**filters, "state": state}),
        state=state,
        chips=page_request.chips("dead", filters, but="state"),
        filters={name: given.get(name, "") for name in _FILTERS},
        open=min(open_now["letters"], ask.LOOK),  # whatever the filters
        is_cut=open_now["looked"] > ask.LOOK,
        looked_at=ask.LOOK,
        rates=RATES,
        **page_request.turns("dead", filters, "before", after),
    )


# A dead letter runs again as a new run.
redrive = run_verb(functions.redrive, "redriven", "note")


async def redrive_cause(page_request: PageRequest) -> Response:
    """Runs the open letters of the cause that the address names again, each once."""
    wanted = _cause(page_request.query(*_CAUSE))
    rate = choice((await page_request.form("rate")).get("rate"), RATES, "rate")
    wanted |= {"rate": rate and int(rate), "per": timedelta(minutes=1)}
    is_any = await _do_all(page_request, functions.redrive_many, **wanted)
    return page_request.redirect("dead", "redriven_cause" if is_any else "redriven_none")


async def archive(page_request: PageRequest) -> Response:
    """Closes one open dead letter, or those of the cause that the address names; then the list."""
    letter = page_request.segments.get("id")
    wanted = {"run_ids": [letter]} if letter else _cause(page_request.query(*_CAUSE))
    note = (await page_request.form("note")).get("note")
    is_any = await _do_all(page_request, functions.archive_dead_letters, **wanted, note=note)
    return page_request.redirect("dead", "archived" if is_any else "archived_none")


async def _do_all(page_request: PageRequest, command: Rows, **wanted: Any) -> bool:
    """Executes the command for up to `_MOST_DONE` letters; whether there was one."""
    batches = functions.in_batches(page_request.do, command, _MOST_DONE, **wanted)
    return any([batch async for batch in batches])


def _cause(given: dict[str, str]) -> dict[str, Any]:
    """The letters of the cause that an address names."""
    found: dict[str, Any] = {into: given.get(name) for name, into in _CAUSE.items()}
    if found["error_class"] == NO_CLASS:
        found["error_class"] = ""
    return {**found, "tags": found["tags"] and (found["tags"],)}


async def _read_letters(
    session: Session, wanted: dict[str, Any], before: int | None
) -> tuple[list[Row], list[Row], Row]:
    """Causes, letters (one more than is shown), and how many are open, in one transaction."""
    return (
        await session.call(ask.groups, **wanted),
        await session.call(ask.letters, **wanted, before=before),
        await session.call(open_letters),
    )


def _group(page_request: PageRequest, row: Row, filters: dict[str, str]) -> dict[str, Any]:
    """A cause: the dead letters of one handler that died in the same way."""
    error_class = row["error_class"] or NO_CLASS
    cause = {"handler": row["handler"], "class": error_class, "group": row["fingerprint"]}
    verb_of = {**filters, **cause, "state": None}
    return {
        **row,
        "is_closed": not row["open"],
        "href": page_request.link("dead", {**filters, **cause}),
        "redrive_href": page_request.link("redrive_runs", verb_of),
        "archive_href": page_request.link("archive_runs", verb_of),
        "is_chosen": all(filters.get(name) == value for name, value in cause.items()),
    }
