"""``/schedules/{name}/occurrences``: every decision, its reason, and why something did not run."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.client.fires import explain
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import database_time, schedule
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.db.queries.pages.run import why_run_waits
from pgcron_ha.db.queries.reasons import Reason, why
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import capital, mark_of, plain, who_and_why
from pgcron_ha.model.verdicts import ledger_line, reason_words
from pgcron_ha.spec.zones import load_zone, zone_names
from pgcron_ha.web.address import Meant, choice, cursor_instant, instants
from pgcron_ha.web.page_request import PageRequest


async def show_ledger(page_request: PageRequest) -> Response:
    """The ledger; ``decision`` filters, ``before`` turns pages, ``at`` asks why."""
    name = page_request.segments["name"]
    given = page_request.query("decision", "before", "at")
    decision = choice(given.get("decision"), ask.DECISIONS, "decision")
    before = cursor_instant(given.get("before"), "the ledger")
    snapshot = await page_request.gather("ledger", _read_ledger, name, given, before)
    row, rows, end, reasons = snapshot.value
    rows, next_page = _page(rows)
    if end is not None:
        next_page = end["fire_at"].isoformat()
    filters = {"decision": decision, "at": given.get("at")}
    zone = _schedule_zone(row["timezone"])
    return page_request.page(
        "ledger.html",
        snapshot,
        title=f"Occurrences of {plain(name)}",
        name=name,
        zone=zone,
        utc=load_zone("UTC"),
        rows=[ledger_line(fire, snapshot.now) for fire in rows],
        decisions=page_request.choices(
            "occurrences", "decision", (None, *ask.DECISIONS), filters, name=name
        ),
        decision=decision,
        asked=given.get("at", ""),
        answers=[_answer(*reason, row) for reason in reasons],
        searched=ask.LEDGER_LOOK if end else None,
        **page_request.turns("occurrences", filters, "before", next_page, name=name),
    )


async def _read_ledger(
    session: Session, name: str, given: dict[str, str], before: datetime | None
) -> tuple[Row, list[Row], Row | None, list[tuple[Meant, Reason, str | None]]]:
    """The definition, one page of decisions, the fire at which the search for them ended (None: all
    were searched), and the answers: each instant that was meant, why, and what its run waits for.
    NotFound; InvalidInput for what is no time.
    """
    row = await session.call(schedule, name)
    reasons: list[tuple[Meant, Reason, str | None]] = []
    if "at" in given:
        now = await session.call(database_time)
        for meant in instants(given["at"], _schedule_zone(row["timezone"]), now):
            reported = await session.call(why, name, meant.instant)
            waits = None
            if reported.run is not None and reported.outcome in ("ready", "blocked"):
                waits = await session.call(why_run_waits, reported.run)
            reasons.append((meant, reported, waits))
    decision = given.get("decision")
    rows = await session.call(ask.occurrences, row["id"], decision=decision, before=before)
    is_short = decision not in (None, "missed") and len(rows) <= ask.PAGE_ROWS
    end = await session.call(ask.ledger_end, row["id"], before=before) if is_short else None
    return row, rows, end, reasons


def _page(rows: list[Row]) -> tuple[list[Row], str | None]:
    """The rows of this page, and where the next begins; a fire and a range of it stay together."""
    if len(rows) <= ask.PAGE_ROWS:
        return rows, None
    last = rows[ask.PAGE_ROWS - 1]["fire_at"]
    shown = [row for row in rows if row["fire_at"] >= last]
    return shown, last.isoformat()


def _answer(meant: Meant, stored: Reason, waits: str | None, row: Row) -> SimpleNamespace:
    """Why an instant of a schedule ran or did not."""
    reported, before, after = explain(row, meant.instant, stored)
    words = {"run": reported.outcome or "run", "not an instant": "no_fire", "not yet": "not_yet"}
    word = words.get(reported.decision, reported.decision)
    near = [("before", before), ("after", after)] if word == "no_fire" else []
    return SimpleNamespace(
        meant=meant,
        mark=mark_of("paused" if reported.code == "is_paused" else word),
        sentence=_sentence(reported, waits),
        reported=reported,
        said_by=_said_by(reported),
        near=[(where, fire) for where, fire in near if fire],  # around an instant that is none
    )


def _said_by(reported: Reason) -> str | None:
    """Who decided it and their note, where the sentence doesn't name them."""
    if reported.actor is None or reported.actor in (reported.reason or ""):
        return None
    return who_and_why(f"by {reported.actor}", reported.note)


def _sentence(reported: Reason, waits: str | None) -> str:
    """Why it ran or did not; what the badge beside it says is not repeated."""
    if waits:
        return f"It became a run, which waits: {waits}."
    if reported.decision == "run" and reported.outcome is None:
        return f"{reported.meaning} Retention has removed what came of it."
    # That it is no instant is all that is to be said about it.
    if reported.decision in ("run", "not an instant"):
        return reported.meaning
    because = reason_words(reported.reason, reported.meaning) or reported.meaning
    return f"{capital(because.rstrip('.'))}."


def _schedule_zone(timezone: str) -> ZoneInfo:
    # One that is newer than this tzdata has its times shown in UTC.
    return load_zone(timezone if timezone in zone_names() else "UTC")
