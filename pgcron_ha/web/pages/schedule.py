"""``/schedules/{name}``: is it healthy, what will happen next, what happened and why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median, quantiles
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.fires import NO_FIRE, changed_words, is_fire, was_edited
from pgcron_ha.client.previews import policies_in, schedule_preview
from pgcron_ha.db.commands.occurrences import changed_occurrences
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.errors import NotFound, PgcronError
from pgcron_ha.spec.preview import PreviewFire
from pgcron_ha.spec.schedule_spec import calendars_in, spec_of
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.web.address import WrongAddress
from pgcron_ha.web.contexts import ChangedFire, FutureFireLine, ScheduleView
from pgcron_ha.web.formats import duration, expected_about, offset, plural, short
from pgcron_ha.web.health import Health, judge, runs_are_made
from pgcron_ha.web.occurrence_words import reason_words
from pgcron_ha.web.owners import owner_words
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.plots import trend
from pgcron_ha.web.run_words import retry_words, run_word

NEXT_FIRES: Final = 10
LEDGER_ROWS: Final = 25
RUN_ROWS: Final = 25
_ISO: Final = "%Y-%m-%dT%H:%M:%S.%f%z"


class NoSuchSchedule(NotFound):
    """A schedule that does not exist, with those that may have been meant."""

    def __init__(self, name: str, near: list[tuple[str, str]]) -> None:
        super().__init__(
            f"schedule '{name[:200]}' does not exist",
            "A schedule is named exactly as it was created.",
            "Look for it in the list of schedules.",
        )
        self.near = near


@dataclass(frozen=True)
class Found:
    """What was read; `definition` is None when there is no such schedule."""

    definition: dict[str, Any] | None
    facts: dict[str, Any] | None
    ledger: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    near: list[str]


async def show_schedule(page_request: PageRequest) -> Response:
    """The page; ``?before=`` (an instant) turns the ledger's pages."""
    name = page_request.segment("name")
    before = _instant(page_request.query("before").get("before"))
    snapshot = await page_request.read(
        ("schedule", name, before),
        lambda connection: read_schedule(connection, page_request.schema, name, before),
    )
    if (drawn := page_request.drawn(snapshot)) is not None:
        return drawn
    found = snapshot.value
    if found.definition is None or found.facts is None:
        near = [(other, page_request.link("schedule", name=other)) for other in found.near]
        near.append(("all schedules", page_request.link("schedules")))
        raise NoSuchSchedule(name, near)
    view = _view(
        page_request, found, found.definition, judge(found.facts, snapshot.now), snapshot.now
    )
    return page_request.page("schedule.html", view, snapshot, title=name, section="schedules")


async def read_schedule(
    connection: Connection, schema: str, name: str, before: datetime | None
) -> Found:
    """Everything the page shows, in one read-only transaction."""
    definition = await ask.schedule(connection, name, schema=schema)
    if definition is None:
        return Found(None, None, [], [], await ask.near_names(connection, name, schema=schema))
    id_ = definition["id"]
    facts = await ask.schedules(connection, ids=[id_], limit=1, schema=schema)
    return Found(
        {**definition, "changed": await changed_occurrences(connection, id_, schema=schema)},
        facts[0] if facts else None,
        await ask.ledger(connection, id_, before=before, limit=LEDGER_ROWS + 1, schema=schema),
        await ask.schedule_runs(connection, id_, limit=RUN_ROWS, schema=schema),
        [],
    )


def future_fire_lines(
    row: dict[str, Any], now: datetime, limit: int = NEXT_FIRES
) -> tuple[tuple[FutureFireLine, ...], str | None]:
    """The next fires in the schedule's own zone, and a sentence when there is something to say."""
    if row["status"] == "invalid":
        return (), row["error"]
    try:
        ahead = schedule_preview(row, now, limit)
    except PgcronError as error:
        return (), error.message
    note = "; ".join(ahead.notes) or None
    if not row["enabled"]:
        note = f"{_pause_words(row)}; these fires would be, if it were resumed."
    changes = {one["fire_at"]: _changed(one) for one in row.get("changed", ())}
    lines = tuple(
        replace(_fire_line(fire, row["timezone"]), change=changes.get(fire.fire_at))
        for fire in ahead.fires
    )
    if not lines and row.get("max_runs"):
        return lines, f"It is done: {runs_are_made(row)}."
    return lines, note if lines else "It never fires again."


def _pause_words(row: dict[str, Any]) -> str:
    by = f" by {row['paused_by']}" if row.get("paused_by") else ""
    end = row.get("paused_until")
    until = f" until {end:%Y-%m-%d %H:%M:%S} UTC" if end else ""
    note = f" ({short(row['paused_note'])})" if row.get("paused_note") else ""
    return f"It is paused{by}{until}{note}"


def schedule_sentence(row: dict[str, Any]) -> str | None:
    """The schedule in English; None when another version wrote it."""
    try:
        return sentence(spec_of(row), policies_in(row))
    except PgcronError:
        return None


def _fire_line(fire: PreviewFire, zone_name: str) -> FutureFireLine:
    local = fire.local
    return FutureFireLine(
        at=fire.fire_at,
        local=f"{local:%Y-%m-%d %H:%M:%S}" + ("" if zone_name == "UTC" else f" ({offset(local)})"),
        weekday=f"{local:%a}",
        utc=f"{fire.fire_at:%Y-%m-%d %H:%M:%S}",
        note=fire.note,
    )


def _view(
    page_request: PageRequest, found: Found, row: dict[str, Any], health: Health, now: datetime
) -> ScheduleView:
    fires, note = future_fire_lines(row, now)
    facts = found.facts or {}
    taken = [s for s in facts["durations"] or () if s is not None]
    slowest = quantiles(taken, n=20)[-1] if len(taken) > 1 else None
    more = len(found.ledger) > LEDGER_ROWS
    ledger = found.ledger[:LEDGER_ROWS]
    before = {"before": ledger[-1]["fire_at"].strftime(_ISO)} if more else None
    return ScheduleView(
        row=row,
        health=health,
        fires=fires,
        changed=_other_changes(row, {fire.at for fire in fires}),
        fires_note=note,
        sentence=schedule_sentence(row),
        shows_viewer_zone=page_request.zone.key not in ("UTC", row["timezone"]),
        ledger=[_ledger_line(fire, now) for fire in ledger],
        ledger_href=page_request.link("schedule", before, name=row["name"]) if before else None,
        runs=found.runs,
        runs_href=page_request.link("runs", {"schedule": row["name"]}),
        occurrences_href=page_request.link("occurrences", name=row["name"]),
        trend=trend(
            facts["ids"],
            facts["outcomes"],
            facts["durations"],
            facts["finished"],
            median(taken),
            slowest,
            page_request.zone,
        )
        if taken
        else None,
        median=median(taken) if taken else None,
        slowest=slowest,
        settings=_settings(row),
        owner=owner_words(row["managed_by"]),
        calendars=[name for name, _ in calendars_in(row["calendars"])],
    )


def _other_changes(row: dict[str, Any], shown: set[datetime]) -> list[ChangedFire]:
    others = [one for one in row["changed"] if one["fire_at"] not in shown]
    return [_changed(one, "" if is_fire(row, one["fire_at"]) else NO_FIRE) for one in others]


def _changed(one: dict[str, Any], more: str = "") -> ChangedFire:
    undo = ("restore_args", "Restore args") if was_edited(one) else ("restore_fire", "Restore")
    return ChangedFire(one["fire_at"], changed_words(one) + more, *undo)


def _ledger_line(fire: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The row in words: why, and what came of its run (None: unknown), as on their own pages."""
    state = fire["run_state"]
    word = None if state is None else run_word({**fire, "state": state}, now)
    return {**fire, "run_state": word, "reason": reason_words(fire["reason"], fire["note"])}


def _settings(row: dict[str, Any]) -> list[tuple[str, str]]:
    attempts = row["max_attempts"] or (1 if row["delivery"] == "at_most_once" else 5)
    deadline = row["start_deadline"]
    catchup = f"{row['catchup']}, window {duration(row['catchup_window'])}"
    policy = retry_words(row["retry"])
    waits = f"{attempts}, waits {duration(row['retry_base'])} to {duration(row['retry_cap'])}"
    return [
        ("Handler", row["handler"]),
        ("Queue, priority", f"{row['queue']}, {row['priority']}"),
        *([("Lane", row["lane"])] if row["lane"] else []),
        ("Overlap", row["overlap"]),
        *_bounds_of_overlap(row),
        ("Catch-up", "none" if row["catchup"] == "none" else catchup),
        *([("After failures", _after_failures(row))] if row["pause_after_failures"] else []),
        *([("After a pause", "catch up")] if row["after_pause"] == "catchup" else []),
        ("Start deadline", "none: it waits" if deadline is None else duration(deadline)),
        *(
            [("Jitter", f"each fire up to {duration(row['jitter'])} later, all alike")]
            if row["jitter"]
            else []
        ),
        *([("Depends on", "the fire before it")] if row["depends_on_previous"] else []),
        *([("Most runs", _runs_made(row))] if row["max_runs"] else []),
        ("Timeout", duration(row["timeout"])),
        ("Attempts", waits if policy is None else str(attempts)),
        *([("Retries", policy)] if policy is not None else []),
        ("Delivery", row["delivery"].replace("_", " ")),
        ("DST policy", row["dst"]),
        ("Managed by", " ".join(filter(None, (row["managed_by"], row["source"])))),
        ("Version", f"{row['version']}, {row['last_editor'] or 'unknown'}"),
    ]


def _bounds_of_overlap(row: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    if row["max_running"] is not None:
        found.append(("At once", plural(row["max_running"], "run")))
    if row["overlap"] == "queue":
        dropped = row["queue_drops"] or "newest"
        found.append(("Waiting", f"{row['max_queued'] or 1000} at most, then the {dropped} goes"))
    if row["overrun"] is not None:
        expected = expected_about(row["overrun_expected"])
        found.append(("Overruns", f"run {row['overrun']}; {expected}"))
    return found


def _runs_made(row: dict[str, Any]) -> str:
    made, most = row["runs_made"], row["max_runs"]
    return f"{made} of {most}" + (": done" if made >= most else "")


def _after_failures(row: dict[str, Any]) -> str:
    most, wait, probe = row["pause_after_failures"], row["probe_after"], row["probe_at"]
    words = f"paused after {plural(most, 'failure')} in a row"
    words += f", probed after {duration(wait)}" if wait else ""
    return words + (f"; the next probe at {probe:%Y-%m-%d %H:%M:%S} UTC" if probe else "")


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise WrongAddress(
            f"'{text[:60]}' is not an instant",
            "An instant is written with its zone, such as 2026-11-21T06:30:00Z.",
            "Leave it out for the newest.",
            wrong=text,
        )
    return found
