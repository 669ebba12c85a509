"""``/schedules``: which are unhealthy, and when is the next fire; ``/schedules/{name}``: is it
healthy, what will happen next, what happened and why not. What can be done to one, and to one fire
of it that is to come: POST only, as the same functions that SQL and the CLI call.
"""

from __future__ import annotations

from datetime import datetime
from statistics import median, quantiles
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.fires import changed_words
from pgcron_ha.client.previews import policies_in, schedule_preview
from pgcron_ha.client.schedule_edits import texts_of
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.db.queries.pages.runs import (
    STATE_WORDS,
    Position,
    RunFilter,
    detailed,
    runs_of_schedule,
)
from pgcron_ha.db.queries.rows import Query, Row
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.model.formats import expected_about, stored
from pgcron_ha.model.health import judge, pause_words, runs_are_made
from pgcron_ha.model.verdicts import ledger_line
from pgcron_ha.spec.preview import PreviewFire
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import calendars_in, spec_of
from pgcron_ha.spec.text import listed
from pgcron_ha.web.address import choice, first_of, label_filters
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.pages.schedule_edit import MANAGED, label_of
from pgcron_ha.web.plots import spark
from pgcron_ha.web.verbs import ARGS, CHANGED_FIRE, DUE_AT, FIRE, FIRE_TIME, UNTIL, run_verb, verb

# Words that can be searched for, the health that they stand for, and who knows such schedules.
_HEALTH: Final[dict[str, tuple[set[str], tuple[Query, ...]]]] = {
    "failing": (
        {"failing", "stuck", "invalid"},
        (ask_overview.failing_candidates, ask_overview.invalid_schedules, ask_overview.running),
    ),
    "late": ({"late", "stale"}, (ask_overview.blocked_schedules, ask_overview.due)),
    "invalid": ({"invalid"}, (ask_overview.invalid_schedules,)),
}
_CHOICES: Final = together(ask.queue_names, ask.labels, ask_overview.schedule_count)
_FILTERS: Final[tuple[str, ...]] = ("text", "health", "queue", "state", "tag", "owner")
NEXT_FIRES: Final = 10
LEDGER_ROWS: Final = 25
RUN_ROWS: Final = 25
# What is only scheduled so far is shown as fires.
_RUNS: Final = RunFilter(tuple(word for word in STATE_WORDS if word != "scheduled"), rows=RUN_ROWS)
# Fields that the page shows at other places.
_ELSEWHERE: Final = frozenset({"spec", "timezone", "args", "description", "tags", "links"})


async def show_schedules(page_request: PageRequest) -> Response:
    """The list; ``?text=``, ``health``, ``queue``, ``state``, ``tag``, ``owner`` filter it;
    ``after`` is the page.
    """
    given = page_request.query(*_FILTERS, "after")
    health = choice(given.get("health"), tuple(_HEALTH), "health word")
    choice(given.get("state"), ("on", "paused"), "state")
    snapshot = await page_request.gather("schedules", _read_listing, given)
    rows, (queues, labels, count) = snapshot.value
    lines = [_line(page_request, row, snapshot.now) for row in rows]
    if health is not None:
        lines = [line for line in lines if line["health"].word in _HEALTH[health][0]]
    shown, after = first_of(lines, ask.PAGE_ROWS, "name")
    return page_request.page(
        "schedules.html",
        snapshot,
        title="Schedules",
        rows=shown,
        words={"health": _HEALTH, "queue": queues, "state": ("on", "paused")},
        known=labels,
        total=count["schedules"],  # whatever the filters
        **page_request.listed("schedules", _FILTERS, given, "after", after),
    )


async def _read_listing(session: Session, given: dict[str, str]) -> tuple[list[Row], list[Any]]:
    """One page of schedules (a row more if there is a next one), and what `_CHOICES` asks."""
    ids = None
    if "health" in given:
        asked = [row for query in _HEALTH[given["health"]][1] for row in await session.call(query)]
        ids = [row["schedule_id"] for row in asked if row["schedule_id"] is not None]
    rows = await session.call(
        ask.schedules,
        ids=ids,
        enabled=given["state"] == "on" if "state" in given else None,
        limit=ask.PAGE_ROWS + 1 if ids is None else ask.MOST_IDS,
        **{name: given.get(name) for name in ("text", "queue", "after")},
        **label_filters(given),
    )
    return rows, await session.call(_CHOICES)


def _line(page_request: PageRequest, row: Row, now: datetime) -> dict[str, Any]:
    """The row with its health and its trend."""
    trend = spark(row, page_request.zone)
    return {**row, "health": judge(row, now), "spark": trend, "is_off": not row["enabled"]}


async def show_schedule(page_request: PageRequest) -> Response:
    """The page."""
    name = page_request.segments["name"]
    page_request.query()
    snapshot = await page_request.gather("schedule", _read_schedule, name)
    row, now = snapshot.value, snapshot.now
    facts = row["facts"]
    fires, note = future_fire_lines(row, now)
    shown = {fire.fire_at for fire, _ in fires}
    taken = [s for s in facts["durations"] or () if s is not None]
    slowest = quantiles(taken, n=20)[-1] if len(taken) > 1 else None
    ledger, last = first_of(row["ledger"], LEDGER_ROWS, "fire_at")
    before = {"before": last and last.isoformat()}
    return page_request.page(
        "schedule.html",
        snapshot,
        title=name,
        row=row,
        health=judge(facts, now),
        fires=fires,
        # Later ones, or none any more.
        changed=[
            (one["fire_at"], changed_words(row, one))
            for one in row["changed"]
            if one["fire_at"] not in shown
        ],
        fires_note=note,
        sentence=schedule_sentence(row),
        shows_viewer_zone=page_request.zone.key not in ("UTC", row["timezone"]),
        ledger=[ledger_line(fire, now) for fire in ledger],
        # Of those before.
        ledger_href=last and page_request.link("occurrences", before, name=row["name"]),
        runs=row["runs"][: 2 * RUN_ROWS],
        trend=spark(facts, page_request.zone),
        longest=max(taken, default=None),
        # Seconds: half of the last runs took at most `median`, 95 of 100 at most `slowest`.
        median=median(taken) if taken else None,
        slowest=slowest,
        settings=_settings(row),
        links=links_of(row),
        managed=MANAGED.get(row["managed_by"]),
        calendars=[name for name, _ in calendars_in(row["calendars"])],
    )


def links_of(row: Row) -> dict[str, str]:
    """Titles and addresses of pages about a schedule."""
    found = row["links"]
    return found if isinstance(found, dict) else {}


async def _read_schedule(session: Session, name: str) -> Row:
    """The definition, the facts of its health, the ledger and the runs, in one read-only
    transaction. NotFound.
    """
    row = await session.call(overview.schedule, name)
    runs = await session.call(runs_of_schedule, row["id"], _RUNS, Position())
    return {
        **row,
        "changed": await session.call(functions.changed_occurrences, row["id"]),
        "facts": await session.call(ask.schedules.the, ids=[row["id"]], limit=1),
        "ledger": await session.call(ask.occurrences, row["id"], limit=LEDGER_ROWS + 1),
        "runs": await session.call(detailed, runs),
    }


def future_fire_lines(
    row: Row, now: datetime
) -> tuple[tuple[tuple[PreviewFire, str | None], ...], str | None]:
    """The next fires, each with what somebody did to it, and a sentence when there is something to
    say.
    """
    if row["status"] == "invalid":
        error = row["error"]
        return (), error.get("message") if isinstance(error, dict) else stored(error)
    try:
        ahead = schedule_preview(row, now, NEXT_FIRES)
    except PgcronError as error:
        return (), error.message
    note = "; ".join(ahead.notes) or None
    if not row["enabled"]:
        note = f"It is paused {pause_words(row)}; these fires would be, if it were resumed."
    shown = {fire.fire_at for fire in ahead.fires}
    changes = {
        one["fire_at"]: changed_words(row, one)
        for one in row.get("changed", ())
        if one["fire_at"] in shown
    }
    lines = tuple((fire, changes.get(fire.fire_at)) for fire in ahead.fires)
    if not lines and not ahead.is_over:
        waited_for = listed(row["waits_for_assets"] or ())
        return lines, f"It waits for an update of {waited_for}." if waited_for else None
    if not lines and row.get("max_runs"):
        return lines, f"It is done: {runs_are_made(row)}."
    return lines, note if lines else "It never fires again."


def schedule_sentence(row: Row) -> str | None:
    """The schedule in English; None when another version wrote it."""
    try:
        return sentence(spec_of(row), policies_in(row))
    except PgcronError:
        return None


def _settings(row: Row) -> list[tuple[str, str]]:
    """Word and value of what is set, as the form says it, and what has come of it."""
    facts = row["facts"]
    overrun = f"run {facts['overrun']}; {expected_about(facts['overrun_expected'])}"
    named = [
        *(
            (label_of(name).removesuffix(" (JSON)"), text)
            for name, text in texts_of(row).items()
            if name not in _ELSEWHERE
        ),
        ("Runs made", row["max_runs"] and f"{row['runs_made']} of {row['max_runs']}"),
        ("Overruns", facts["overrun"] and overrun),
        ("Source", row["source"]),
        ("Version", f"{row['version']}, {row['last_editor'] or 'unknown'}"),
    ]
    return [(word, value) for word, value in named if value not in (None, "", "no")]


# One extra run of the schedule as it is defined, for the ``fire_time`` that the form says.
run_now = run_verb(functions.run_now, "run", FIRE_TIME)
# No fires from now on; ``note`` says why.
pause = verb(functions.pause_schedule, "schedule", "paused", "note", UNTIL)
resume = verb(functions.resume_schedule, "schedule", "resumed")
skip_fire = verb(functions.skip_occurrence, "schedule", "fire_skipped", FIRE, "note")
move_fire = verb(functions.move_occurrence, "schedule", "fire_moved", FIRE, DUE_AT, "note")
edit_fire = verb(functions.edit_occurrence, "schedule", "fire_edited", FIRE, ARGS, "note")
restore_fire = verb(functions.restore_occurrence, "schedule", "fire_restored", CHANGED_FIRE)


async def rename(page_request: PageRequest) -> Response:
    """The same schedule under another name: ``name``."""
    name = page_request.segments["name"]
    new_name = (await page_request.form("name")).get("name", "")
    await page_request.do(functions.rename_schedule, name, new_name)
    return page_request.redirect("schedule", "renamed", name=new_name)


async def delete(page_request: PageRequest) -> Response:
    """Ends what waits and removes the schedule, if ``sure`` is yes; then shows the list."""
    if (await page_request.form("sure")).get("sure") != "yes":
        raise InvalidInput(
            "a deletion was not confirmed",
            "It can't be taken back but by restoring a version, which makes another schedule.",
            "Say that you are sure.",
        )
    name = page_request.segments["name"]
    await page_request.do(functions.delete_schedule, name)
    return page_request.redirect("schedules", "schedule_deleted")
