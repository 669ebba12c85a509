"""``/schedules/{name}/occurrences``: every decision, its reason, and why something did not run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.client.fires import explain
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import ledger as ask
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.db.queries.pages.fetching import clock
from pgcron_ha.db.queries.reasons import Reason, why
from pgcron_ha.errors import PgcronError, UnknownZone
from pgcron_ha.spec.schedule_spec import spec_of
from pgcron_ha.spec.spec import Spec
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.address import WrongAddress, choice
from pgcron_ha.web.cluster_contexts import Answer, LedgerRow, LedgerView, NearFire
from pgcron_ha.web.formats import plain, state_mark
from pgcron_ha.web.occurrence_words import reason_words
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.schedule import NoSuchSchedule
from pgcron_ha.web.pages.wall_time import Meant, instants

CLOCKS: Final = ("schedule", "utc", "mine")
_OUTCOMES: Final[dict[str | None, str]] = {
    None: "It became a run; retention has removed what came of it.",
    "succeeded": "It ran and succeeded.",
    "dead": "It ran and failed; no attempt is left.",
    "lost": "It began to run and its node died: nobody knows whether it took effect.",
    "cancelled": "It became a run, which was cancelled.",
    "running": "It runs now.",
    "ready": "It became a run, which waits.",
    "blocked": "It became a run, which waits.",
}
_NOTHING_KEPT: Final = (
    "Nothing is known about this instant: as it stood then, the schedule did not name it, or"
    " retention has removed what was decided. As it stands now, it names it."
)
_DECISIONS: Final[dict[str, str]] = {
    "missed": "It did not run",
    "skipped": "It was skipped",
    "superseded": "A newer fire took its place",
    "expired": "It expired",
    "cancelled": "It was cancelled",
    "upstream_failed": "The fire before it had failed",
    "not yet": "It is not decided yet",
    "not an instant": "It does not fire at this instant",
}


@dataclass(frozen=True)
class Question:
    """What the form asked: a text, and whose clock it is told by."""

    at: str
    clock: str


@dataclass(frozen=True)
class Found:
    """What was read; `definition` is None when there is no such schedule."""

    definition: dict[str, Any] | None
    rows: list[dict[str, Any]]
    reasons: list[tuple[Meant, Reason]]
    near: list[str]


async def show_ledger(page_request: PageRequest) -> Response:
    """The ledger; ``decision`` filters, ``before`` turns pages, ``at`` and ``clock`` ask why."""
    name = page_request.segment("name")
    given = page_request.query("decision", "before", "at", "clock")
    choice(given.get("decision"), ask.DECISIONS, "decision")
    choice(given.get("clock"), CLOCKS, "clock")
    before = _instant(given.get("before"))
    question = Question(given["at"], given.get("clock", "schedule")) if "at" in given else None
    snapshot = await page_request.read(
        ("ledger", name, page_request.zone.key, *sorted(given.items())),
        lambda connection: read_ledger(
            connection, page_request, name, question, before, given.get("decision")
        ),
    )
    found = snapshot.value
    if found.definition is None:
        raise NoSuchSchedule(
            name, [(other, page_request.link("occurrences", name=other)) for other in found.near]
        )
    view = _view(page_request, found, found.definition, given, snapshot.now)
    title = f"Occurrences of {plain(name)}"
    return page_request.page("ledger.html", view, snapshot, title=title, section="schedules")


async def read_ledger(
    connection: Connection,
    page_request: PageRequest,
    name: str,
    question: Question | None,
    before: datetime | None,
    decision: str | None,
) -> Found:
    """The definition, one page of decisions, and the answers. InvalidInput for what is no time."""
    schema = page_request.schema
    definition = await ask_schedules.schedule(connection, name, schema=schema)
    if definition is None:
        return Found(None, [], [], await ask_schedules.near_names(connection, name, schema=schema))
    reported: list[tuple[Meant, Reason]] = []
    if question is not None:
        now = await clock(connection, schema)
        zone = _zone(question.clock, definition["timezone"], page_request.zone)
        for meant in instants(question.at, zone, now):
            reported.append((meant, await why(connection, name, meant.instant, schema=schema)))
    rows = await ask.occurrences(
        connection,
        definition["id"],
        decision=decision,
        before=before,
        limit=ask.PAGE_ROWS + 1,
        schema=schema,
    )
    return Found(definition, rows, reported, [])


def _view(
    page_request: PageRequest,
    found: Found,
    row: dict[str, Any],
    given: dict[str, str],
    now: datetime,
) -> LedgerView:
    name, decision = row["name"], given.get("decision")
    rows, next_page = _page(found.rows)
    asked = {key: value for key, value in given.items() if key in ("at", "clock")}
    chosen = {"decision": decision, **asked}
    spec = _spec(row)
    answers = [_answer(meant, reported, row) for meant, reported in found.reasons]
    is_named = all(answer.mark.word != "no fire" for answer in answers)
    return LedgerView(
        name=name,
        zone=_schedule_zone(row["timezone"]),
        utc=load_zone("UTC"),
        rows=tuple(_ledger_row(fire, now) for fire in rows),
        decisions=[
            (
                word or "all",
                page_request.link("occurrences", {**asked, "decision": word}, name=name),
                word == decision,
            )
            for word in (None, *ask.DECISIONS)
        ],
        decision=decision,
        asked=given.get("at", ""),
        clock=given.get("clock", "schedule"),
        clocks=_clocks(row["timezone"], page_request.zone),
        answers=tuple(answers),
        near=()
        if is_named or spec is None
        else _near(page_request, name, spec, found.reasons[0][0]),
        around_href=_around(page_request, name, asked, found.reasons),
        looked_at=ask.LOOK,
        is_first_page="before" not in given,
        first_href=page_request.link("occurrences", chosen, name=name),
        next_href=None
        if next_page is None
        else page_request.link("occurrences", {**chosen, "before": next_page}, name=name),
    )


def _page(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of this page, and where the next begins; a fire and a range of it stay together."""
    if len(rows) <= ask.PAGE_ROWS:
        return rows, None
    last = rows[ask.PAGE_ROWS - 1]["fire_at"]
    shown = [row for row in rows if row["fire_at"] >= last]
    return shown, last.isoformat()


def _ledger_row(fire: dict[str, Any], now: datetime) -> LedgerRow:
    outcome = fire["run_state"]
    if outcome == "ready":
        is_future = fire["due_at"] is not None and fire["due_at"] > now
        waiting = "retrying" if fire["attempt"] else "scheduled" if is_future else "ready"
        outcome = waiting if fire["hold"] in (None, "overlap", "previous") else "parked"
    started = fire["started_at"]
    return LedgerRow(
        facts=fire,
        reason=reason_words(fire["reason"], fire["note"])
        or (fire["cancel_reason"] if outcome == "cancelled" else None),
        outcome=outcome,
        delay=None if started is None else (started - fire["fire_at"]).total_seconds(),
    )


def _answer(meant: Meant, stored: Reason, row: dict[str, Any]) -> Answer:
    found = explain(row, meant.instant, stored)
    reported = found.reported
    sentence = _sentence(reported)
    if reported.code == "not_created":
        sentence = "The schedule did not exist yet."
    elif reported.code == "not_an_instant" and found.is_named:
        sentence = _NOTHING_KEPT
    mark = state_mark(
        (reported.outcome or "run") if reported.decision == "run" else reported.decision
    )
    if reported.decision == "not an instant":
        mark = mark._replace(glyph="∅", word="no fire")
    elif reported.decision == "not yet":
        mark = mark._replace(
            glyph="◷", word="paused" if reported.code == "is_paused" else "not yet"
        )
    return Answer(
        meant.instant,
        mark,
        sentence,
        reported.run,
        reported.outcome,
        meant.note,
        reported,
        _said_by(reported),
    )


def _said_by(reported: Reason) -> str | None:
    """Who decided it and their note, where the sentence doesn't name them."""
    if reported.actor is None or reported.actor in (reported.reason or ""):
        return None
    return f"by {reported.actor}" + (f": {reported.note}" if reported.note else "")


def _sentence(reported: Reason) -> str:
    if reported.decision == "run":
        return _OUTCOMES.get(reported.outcome, "It became a run.")
    # That it is no instant is all that is to be said about it.
    reason = None if reported.decision == "not an instant" else reason_words(reported.reason)
    return _DECISIONS.get(reported.decision, reported.decision.capitalize()) + (
        f": {reason}." if reason else "."
    )


def _near(page_request: PageRequest, name: str, spec: Spec, meant: Meant) -> tuple[NearFire, ...]:
    """The fires before and after, by the definition as it stands."""
    fires = (("before", spec.previous(meant.instant)), ("after", spec.next(meant.instant)))
    return tuple(
        NearFire(fire, word, page_request.link("occurrences", {"at": fire.isoformat()}, name=name))
        for word, fire in fires
        if fire is not None
    )


def _around(
    page_request: PageRequest, name: str, asked: dict[str, str], reasons: list[tuple[Meant, Reason]]
) -> str | None:
    """The page of the ledger whose first row is what was asked about, or the fire before it."""
    if not reasons:
        return None
    after = reasons[-1][0].instant + timedelta(microseconds=1)
    return page_request.link("occurrences", {**asked, "before": after.isoformat()}, name=name)


def _spec(row: dict[str, Any]) -> Spec | None:
    try:
        return spec_of(row)
    except PgcronError:  # another version wrote it, or this tzdata lacks its zone
        return None


def _zone(clock: str, timezone: str, mine: ZoneInfo) -> ZoneInfo:
    if clock == "mine":
        return mine
    return load_zone("UTC") if clock == "utc" else _schedule_zone(timezone)


def _schedule_zone(timezone: str) -> ZoneInfo:
    try:
        return load_zone(timezone)
    except UnknownZone:  # newer than this tzdata: its times are told in UTC
        return load_zone("UTC")


def _clocks(timezone: str, mine: ZoneInfo) -> list[tuple[str, str]]:
    """The clocks to choose from, each zone once."""
    clocks = [("schedule", timezone), ("utc", "UTC"), ("mine", mine.key)]
    known = [zone for _, zone in clocks]
    return [
        (word, f"{zone} (the schedule's)" if word == "schedule" else zone)
        for at, (word, zone) in enumerate(clocks)
        if zone not in known[:at]
    ]


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text).astimezone(UTC) if "T" in text else None
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise WrongAddress(
            f"'{text[:60]}' is not a page of the ledger",
            "A page begins before an instant, such as 2026-11-21T06:30:00Z.",
            "Leave 'before' out for the newest, and go on by the link below the list.",
            wrong=text,
        )
    return found
