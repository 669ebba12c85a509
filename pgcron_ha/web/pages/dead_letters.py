"""``/dead``: what are the causes, is it getting worse, and sending a dead letter again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import dead_letters as ask
from pgcron_ha.errors import NotFound
from pgcron_ha.web.address import WrongAddress, choice
from pgcron_ha.web.cluster_contexts import DeadLettersView, Letter, LetterGroup
from pgcron_ha.web.contexts import FilterChip
from pgcron_ha.web.formats import plain
from pgcron_ha.web.page_request import PageRequest

# In addresses: letters whose run ended without a class of error.
NO_CLASS: Final = "(none)"
_FILTERS: Final[tuple[str, ...]] = ("state", "handler", "class", "group", "queue", "schedule")
# What names the letters of a cause in the form that redrives them.
_CAUSE: Final = ("handler", "class", "group", "queue", "schedule")
# How many of them become due in a minute; without one all do at once.
RATES: Final = ("1", "10", "60", "600")
# A cause with more is redriven by pressing again; a batch is one transaction.
_MOST_BATCHES: Final = 10
_MOST_RUN: Final = 2**63 - 1


@dataclass(frozen=True)
class Found:
    """Rows as `pgcron_ha.db.queries.pages.dead_letters` documents them; one letter more than is
    shown.
    """

    groups: list[dict[str, Any]]
    letters: list[dict[str, Any]]
    counted: dict[str, Any]


async def show_dead_letters(page_request: PageRequest) -> Response:
    """Causes, and the letters one by one; filters and the page (``before``) live in the address."""
    given = page_request.query(*_FILTERS, "before")
    choice(given.get("state"), ask.STATES, "state")
    before = _cursor(given.get("before"))
    filters = _wanted(given)
    snapshot = await page_request.read(
        ("dead", *sorted(given.items())),
        lambda connection: read_letters(connection, page_request.schema, filters, before),
    )
    view = _view(page_request, snapshot.value, given)
    return page_request.page(
        "dead_letters.html", view, snapshot, title="Dead letters", section="dead"
    )


async def redrive(page_request: PageRequest) -> Response:
    """Runs a dead letter again as a new run; then shows that run."""
    letter = _run_number(page_request.segment("id"))
    await page_request.form()
    made = await page_request.make_run(
        "redrive",
        letter,
        lambda connection: functions.redrive(
            connection, letter, actor=page_request.actor, schema=page_request.schema
        ),
    )
    return page_request.redirect(
        "run", {"done": "redriven" if made.is_new else "repeated"}, id=made.run
    )


async def redrive_cause(page_request: PageRequest) -> Response:
    """Runs the open letters of the cause that the address names again, each once."""
    wanted: dict[str, Any] = _wanted(page_request.query(*_CAUSE))
    del wanted["state"]
    rate = (await page_request.form("rate")).get("rate")
    choice(rate, RATES, "rate")
    starting: datetime | None = None
    redriven = 0
    for _ in range(_MOST_BATCHES):
        batch = await page_request.act(
            partial(
                functions.redrive_many,
                **wanted,
                rate=None if rate is None else int(rate),
                starting=starting,
                actor=page_request.actor,
                schema=page_request.schema,
            )
        )
        redriven += len(batch.runs)
        if len(batch.runs) < functions.MOST_REDRIVEN:
            break
        starting = batch.next_due
    return page_request.redirect(
        "dead", {"done": "redriven_cause" if redriven else "redriven_none"}
    )


async def read_letters(
    connection: Connection,
    schema: str,
    filters: dict[str, str | None],
    before: tuple[datetime, int] | None,
) -> Found:
    """Everything the page shows, in one transaction."""
    return Found(
        await ask.groups(connection, filters, schema=schema),
        await ask.letters(connection, filters, before, limit=ask.PAGE_ROWS + 1, schema=schema),
        await ask.counted(connection, schema=schema),
    )


def _wanted(given: dict[str, str]) -> dict[str, str | None]:
    error_class = given.get("class")
    return {
        "state": given.get("state", "open"),
        "handler": given.get("handler"),
        "error_class": "" if error_class == NO_CLASS else error_class,
        "fingerprint": given.get("group"),
        "queue": given.get("queue"),
        "schedule": given.get("schedule"),
    }


def _view(page_request: PageRequest, found: Found, given: dict[str, str]) -> DeadLettersView:
    filters = {name: given[name] for name in _FILTERS if name in given}
    chosen = {name: value for name, value in filters.items() if name != "state"}
    state = given.get("state", "open")
    letters = found.letters[: ask.PAGE_ROWS]
    after = None
    if len(found.letters) > ask.PAGE_ROWS:
        last = letters[-1]
        after = {**filters, "before": f"{last['died_at'].isoformat()},{last['run_id']}"}
    return DeadLettersView(
        groups=tuple(_group(page_request, row, filters) for row in found.groups),
        letters=tuple(_letter(page_request, row) for row in letters),
        states=[
            (word, page_request.link("dead", {**chosen, "state": word}), word == state)
            for word in ask.STATES
        ],
        state=state,
        chips=tuple(
            FilterChip(
                f"{name}: {plain(value)}",
                page_request.link("dead", {key: v for key, v in filters.items() if key != name}),
            )
            for name, value in chosen.items()
        ),
        clear_href=page_request.link("dead"),
        open=min(found.counted["open"], ask.LOOK),
        is_cut=found.counted["open"] > ask.LOOK,
        last_at=found.counted["last_at"],
        looked_at=ask.LOOK,
        rates=RATES,
        next_href=page_request.link("dead", after) if after else None,
        first_href=page_request.link("dead", filters) if "before" in given else None,
    )


def _group(page_request: PageRequest, row: dict[str, Any], filters: dict[str, str]) -> LetterGroup:
    cause = {"handler": row["handler"], "class": row["error_class"] or NO_CLASS}
    if row["fingerprint"] is not None:
        cause["group"] = row["fingerprint"]
    chosen = {name: value for name, value in filters.items() if name != "state"}
    return LetterGroup(
        facts=row,
        href=page_request.link("dead", {**filters, **cause}),
        redrive_href=page_request.link("redrive", id=row["newest_run"]) if row["open"] else None,
        redrive_all_href=page_request.link("redrive_cause", {**chosen, **cause})
        if row["redrivable"] > 1
        else None,
        is_chosen=all(filters.get(name) == value for name, value in cause.items()),
    )


def _letter(page_request: PageRequest, row: dict[str, Any]) -> Letter:
    is_open = row["requeued_as"] is None
    schedule = row["schedule"]
    return Letter(
        facts=row,
        redrive_href=page_request.link("redrive", id=row["run_id"]) if is_open else None,
        schedule_href=page_request.link("schedule", name=schedule)
        if schedule is not None
        else None,
    )


def _cursor(text: str | None) -> tuple[datetime, int] | None:
    """``INSTANT,RUN``: the last letter of the page before."""
    if text is None:
        return None
    at, _, run = text.partition(",")
    try:
        instant = datetime.fromisoformat(at).astimezone(UTC) if "T" in at else None
        number = int(run) if run.isascii() and run.isdigit() else -1
    except (ValueError, OverflowError):
        instant, number = None, -1
    if instant is None or not 0 <= number <= _MOST_RUN:
        raise WrongAddress(
            f"'{text[:60]}' is not a page of the dead letters",
            "A page begins after a letter: when it died and its run's number.",
            "Leave 'before' out for the newest, and go on by the link below the list.",
            wrong=text,
        )
    return instant, number


def _run_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    if not 0 < number <= _MOST_RUN:
        raise NotFound(
            f"dead letter '{text[:60]}' does not exist",
            "A dead letter is named by its run's number.",
            "Take it from the list of dead letters.",
        )
    return number
