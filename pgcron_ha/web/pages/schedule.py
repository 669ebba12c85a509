"""``/schedules/{name}``: is it healthy, what will happen next, what happened and why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.client.fires import NO_FIRE, changed_words, is_fire, was_edited
from pgcron_ha.client.previews import policies_in, schedule_preview
from pgcron_ha.db.commands.functions import changed_occurrences
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.db.queries.pages.runs import (
    STATE_WORDS,
    Position,
    RunFilter,
    runs_of_schedule,
)
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.preview import PreviewFire
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import calendars_in, spec_of
from pgcron_ha.web.formats import duration, expected_about, plural
from pgcron_ha.web.health import judge, pause_words, runs_are_made
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.plots import trend
from pgcron_ha.web.run_words import ledger_line, retry_words

NEXT_FIRES: Final = 10
LEDGER_ROWS: Final = 25
RUN_ROWS: Final = 25
# What is only scheduled so far is shown as fires.
_RUNS: Final = RunFilter(tuple(word for word in STATE_WORDS if word != "scheduled"), rows=RUN_ROWS)


# What happens to an edit made here when a schedule is managed elsewhere.
_MANAGED: Final[dict[str, str]] = {
    "code": "It is managed by the code of an application: the next start of a node with it puts"
    " back what is edited here, but for a pause.",
    "file": "It is managed by a file: the next `pgcron-ha schedules apply` of it puts back what is"
    " edited here.",
}


class Found(NamedTuple):
    """What was read."""

    definition: Row
    facts: Row
    ledger: list[Row]
    runs: Sequence[Row]


async def show_schedule(page_request: PageRequest) -> Response:
    """The page."""
    name = page_request.segment("name")
    page_request.query()
    snapshot = await page_request.read(("schedule", name), _read_schedule, name)
    view = _view(page_request, snapshot.value, snapshot.now)
    return page_request.page("schedule.html", snapshot, title=name, **view)


def managed_words(managed_by: str) -> str | None:
    """What happens to an edit made here when the schedule is managed elsewhere; None: it stays."""
    return _MANAGED.get(managed_by)


def links_of(row: dict[str, Any]) -> dict[str, str]:
    """Titles and addresses of pages about a schedule: of a row with ``links`` as JSON text."""
    found = json.loads(row["links"] or "{}")
    return found if isinstance(found, dict) else {}


async def _read_schedule(connection: Connection, name: str, *, schema: str) -> Found:
    """Everything the page shows, in one read-only transaction. NotFound."""
    row = await ask.schedule(connection, name, schema=schema)
    of_it: dict[str, Any] = {"schedule_id": row["id"], "schema": schema}
    return Found(
        {**row, "changed": await changed_occurrences(connection, row["id"], schema=schema)},
        await ask.schedules.the(connection, ids=[row["id"]], limit=1, schema=schema),
        await ask.occurrences(connection, before=None, limit=LEDGER_ROWS + 1, **of_it),
        (await runs_of_schedule(connection, row["id"], _RUNS, Position(), schema=schema)).rows,
    )


def future_fire_lines(
    row: Row, now: datetime, limit: int = NEXT_FIRES
) -> tuple[tuple[tuple[PreviewFire, SimpleNamespace | None], ...], str | None]:
    """The next fires, each with what somebody did to it, and a sentence when there is something to
    say.
    """
    if row["status"] == "invalid":
        return (), row["error"]
    try:
        ahead = schedule_preview(row, now, limit)
    except PgcronError as error:
        return (), error.message
    note = "; ".join(ahead.notes) or None
    if not row["enabled"]:
        note = f"It is paused {pause_words(row)}; these fires would be, if it were resumed."
    changes = {one["fire_at"]: _changed(one) for one in row.get("changed", ())}
    lines = tuple((fire, changes.get(fire.fire_at)) for fire in ahead.fires)
    if not lines and row.get("max_runs"):
        return lines, f"It is done: {runs_are_made(row)}."
    return lines, note if lines else "It never fires again."


def schedule_sentence(row: Row) -> str | None:
    """The schedule in English; None when another version wrote it."""
    try:
        return sentence(spec_of(row), policies_in(row))
    except PgcronError:
        return None


def _view(page_request: PageRequest, found: Found, now: datetime) -> dict[str, Any]:
    """What the page shows."""
    row = found.definition
    fires, note = future_fire_lines(row, now)
    shown, facts = {fire.fire_at for fire, _ in fires}, found.facts
    taken = [s for s in facts["durations"] or () if s is not None]
    slowest = quantiles(taken, n=20)[-1] if len(taken) > 1 else None
    ledger, ledger_href = found.ledger[:LEDGER_ROWS], None
    if len(found.ledger) > LEDGER_ROWS:
        before = {"before": ledger[-1]["fire_at"].isoformat()}
        ledger_href = page_request.link("occurrences", before, name=row["name"])
    half = median(taken) if taken else None
    return {
        "row": row,
        "health": judge(facts, now),
        "fires": fires,
        # Later ones, or none any more.
        "changed": [
            _changed(one, "" if is_fire(row, one["fire_at"]) else NO_FIRE)
            for one in row["changed"]
            if one["fire_at"] not in shown
        ],
        "fires_note": note,
        "sentence": schedule_sentence(row),
        "shows_viewer_zone": page_request.zone.key not in ("UTC", row["timezone"]),
        "ledger": [ledger_line(fire, now) for fire in ledger],
        "ledger_href": ledger_href,  # of those before
        "runs": found.runs[: 2 * RUN_ROWS],
        "trend": trend(facts, half, slowest, page_request.zone) if half is not None else None,
        # Seconds: half of the last runs took at most `median`, 95 of 100 at most `slowest`.
        "median": half,
        "slowest": slowest,
        "settings": _settings(row, facts),
        "links": links_of(row),
        "managed": managed_words(row["managed_by"]),
        "calendars": [name for name, _ in calendars_in(row["calendars"])],
    }


def _changed(one: Row, more: str = "") -> SimpleNamespace:
    """What somebody did to one fire, and the verb that takes it back."""
    # It needs the right that the change needed.
    undo, word = (
        ("restore_args", "Restore args") if was_edited(one) else ("restore_fire", "Restore")
    )
    words = changed_words(one) + more
    return SimpleNamespace(at=one["fire_at"], words=words, undo=undo, undo_word=word)


def _settings(row: Row, facts: Row) -> list[tuple[str, str]]:
    """Word and value of what is set."""
    attempts = row["max_attempts"] or (1 if row["delivery"] == "at_most_once" else 5)
    deadline = row["start_deadline"]
    catchup = f"{row['catchup']}, window {duration(row['catchup_window'])}"
    policy = retry_words(row["retry"])
    waits = f"{attempts}, waits {duration(row['retry_base'])} to {duration(row['retry_cap'])}"
    at_most, dropped = row["max_queued"] or 1000, row["queue_drops"] or "newest"
    jitter = f"each fire up to {duration(row['jitter'])} later, all alike"
    overrun = f"run {facts['overrun']}; {expected_about(facts['overrun_expected'])}"
    named = [
        ("Handler", row["handler"]),
        ("Queue, priority", f"{row['queue']}, {row['priority']}"),
        ("Concurrency key", row["concurrency_key"]),
        ("Overlap", row["overlap"]),
        ("At once", row["max_running"] and plural(row["max_running"], "run")),
        (
            "Waiting",
            row["overlap"] == "queue" and f"{at_most} at most, then the {dropped} goes",
        ),
        ("Overruns", facts["overrun"] and overrun),
        ("Catch-up", "none" if row["catchup"] == "none" else catchup),
        ("After failures", row["pause_after_failures"] and _after_failures(row)),
        ("After a pause", row["after_pause"] == "catchup" and "catch up"),
        ("Start deadline", "none: it waits" if deadline is None else duration(deadline)),
        ("Jitter", row["jitter"] and jitter),
        ("Depends on", row["depends_on_previous"] and "the fire before it"),
        ("Most runs", row["max_runs"] and _runs_made(row)),
        ("Timeout", duration(row["timeout"])),
        ("Attempts", waits if policy is None else str(attempts)),
        ("Retries", policy),
        ("Delivery", row["delivery"].replace("_", " ")),
        ("DST policy", row["dst"]),
        ("Owner", row["owner"]),
        ("Managed by", " ".join(filter(None, (row["managed_by"], row["source"])))),
        ("Version", f"{row['version']}, {row['last_editor'] or 'unknown'}"),
    ]
    return [(word, value) for word, value in named if value]


def _runs_made(row: Row) -> str:
    made, most = row["runs_made"], row["max_runs"]
    return f"{made} of {most}" + (": done" if made >= most else "")


def _after_failures(row: Row) -> str:
    most, wait, probe = row["pause_after_failures"], row["probe_after"], row["probe_at"]
    words = f"paused after {plural(most, 'failure')} in a row"
    words += f", probed after {duration(wait)}" if wait else ""
    return words + (f"; the next probe at {probe:%Y-%m-%d %H:%M:%S} UTC" if probe else "")
