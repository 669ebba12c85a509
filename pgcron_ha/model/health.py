"""The health of a schedule or a queue: one word from what is stored, the gravest that holds, and
why.

Pure: the same facts at the same instant give the same word on every page. Grace and "started or not
started" are judged as cron monitors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise, takewhile
from statistics import quantiles
from typing import Any, Final

from pgcron_ha.errors import PgcronError
from pgcron_ha.model.formats import (
    Mark,
    capital,
    duration,
    expected_about,
    mark_of,
    plural,
    short,
    who_and_why,
)
from pgcron_ha.model.verdicts import Row
from pgcron_ha.spec.bounds import LATEST
from pgcron_ha.spec.budget import search
from pgcron_ha.spec.calendars.calendar import Calendars
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.spec.spec import ScheduleRow, calendars_in, parse_spec

# Ended runs that health and trend are judged from.
LAST_RUNS: Final = 30
# How late a fire may start: a tenth of the interval, within these bounds.
SHORTEST_GRACE: Final = timedelta(seconds=10)
LONGEST_GRACE: Final = timedelta(minutes=5)
# The dead-man's rule: no success for twice the largest gap between this number of fires.
FIRES_LOOKED_AT: Final = 50
# If the oldest due run of a served queue waits longer than this, the queue is lagging.
LAG_SECONDS: Final = 60.0
# How many waiting runs of a schedule are counted.
MOST_LATE: Final = 1000
# Percentiles of fewer runs say nothing.
RUNS_FOR_SLOW: Final = 20
RUNS_FOR_FLAKY: Final = 10
FLAKY_BELOW: Final = 0.9
_EXECUTED: Final = frozenset({"succeeded", "dead", "lost"})
_FAILED: Final = frozenset({"dead", "lost"})
_KNOWN_SPECS: Final = 4096


@dataclass(frozen=True)
class Health:
    """A word of `formats.MARKS`, the sentence behind it, and since when it holds (if known)."""

    word: str
    reason: str
    since: datetime | None = None

    @property
    def is_problem(self) -> bool:
        """Whether somebody should look."""
        return self.word in PROBLEMS


PROBLEMS: Final = frozenset({"invalid", "failing", "stuck", "late", "stale"})


def runs_are_made(row: Row) -> str:
    """Of a schedule with ``max_runs``, when they are: ``its 3 runs are made``."""
    most = row["max_runs"]
    return "its run is made" if most == 1 else f"its {most} runs are made"


def judge(row: Row, now: datetime) -> Health:
    """The health of one row of `pgcron_ha.db.queries.pages.schedules.schedules` at an instant."""
    if row["status"] == "invalid":
        return Health("invalid", f"It never fires: {short(row['error'] or '')}", row["updated_at"])
    for rule in (_failing, _stuck, _late, _stale, _slow, _flaky):
        found = rule(row, now)
        if found is not None:
            return found
    if not row["enabled"]:
        return Health("paused", f"Paused {pause_words(row)}", row["updated_at"])
    if not row["outcomes"] and not row["running_runs"]:
        return Health("new", "It has not run yet.", row["created_at"])
    finished = _executed(row)
    if row["is_completed"]:
        why = runs_are_made(row) if row["max_runs"] else "it never fires again"
        return Health("ok", f"It is done: {why}.")
    ago = f", {duration((now - finished[0][1]).total_seconds())} ago" if finished else ""
    return Health("ok", f"The last run succeeded{ago}." if finished else "Nothing is wrong.")


def rhythm(row: ScheduleRow, now: datetime) -> tuple[timedelta, timedelta] | None:
    """Of the fires of the day of `now` and after the largest gap between two, and how late one may
    start before the schedule is late; None: it can't be said.
    """
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with suppress(PgcronError):
        calendars = calendars_in(row["calendars"])
        return _rhythm(row["spec"], row["timezone"], row["dst"], calendars, midnight)
    return None


@lru_cache(maxsize=_KNOWN_SPECS)
def _rhythm(
    spec: str, timezone: str, dst: str, calendars: Calendars, since: datetime
) -> tuple[timedelta, timedelta] | None:
    fires: list[datetime] = []
    with suppress(PgcronError), search():
        parsed = parse_spec(spec, timezone, DstPolicy.parse(dst), EXAMPLE_SEED, calendars)
        fires = parsed.between(since, LATEST, FIRES_LOOKED_AT + 1)
    gaps = [later - earlier for earlier, later in pairwise(fires)]
    if not gaps:
        return None
    return max(gaps), max(SHORTEST_GRACE, min(LONGEST_GRACE, min(gaps) / 10))


def _failing(row: Row, now: datetime) -> Health | None:
    executed = _executed(row)
    failed = list(takewhile(lambda run: run[0] in _FAILED, executed))
    if not failed:
        return None
    # Where all that were read have failed, those before them may have, too.
    more = "+" if len(failed) == len(executed) and len(row["outcomes"]) == LAST_RUNS else ""
    words = "1 failure" if len(failed) == 1 else f"{len(failed)}{more} failures in a row"
    error = next((error for _, _, _, error in executed if error), None)
    return Health("failing", words + (f": {short(error)}" if error else ""), failed[-1][1])


def _stuck(row: Row, now: datetime) -> Health | None:
    if row["running_since"] is None:
        return None
    run, lasting = f"Run {row['running_id']}", (now - row["running_since"]).total_seconds()
    if row["running_has_lease"] is False:
        why = f"{run}'s node lost its lease; another node takes over."
    elif row["running_timeout"] is not None and lasting > row["running_timeout"]:
        why = f"{run} runs for {duration(lasting)}, beyond its timeout."
    else:
        return None
    return Health("stuck", why, row["running_since"])


def _late(row: Row, now: datetime) -> Health | None:
    fire = row["oldest_late"]
    if fire is None or not row["enabled"]:
        return None
    beats = rhythm(row, now)
    lateness = now - fire
    if lateness <= (beats[1] if beats else LONGEST_GRACE):
        return None
    fires = row["late_fires"]
    wait = "A fire waits" if fires == 1 else f"{plural(fires, 'fire')} wait"
    if fires >= MOST_LATE:
        wait = f"{plural(fires, 'fire')} or more wait"
    long = duration(lateness.total_seconds())
    # It need not be why: the schedule may let them overlap, and wait for something else.
    meanwhile = f" while run {row['running_id']} runs" if row["running_runs"] else ""
    first = ", the first" if fires > 1 else ""
    return Health("late", f"{wait}{first} for {long}{meanwhile}.", fire)


def _stale(row: Row, now: datetime) -> Health | None:
    beats = rhythm(row, now) if row["enabled"] else None
    if beats is None or row["is_completed"]:
        return None
    largest, grace = beats
    longest = largest * 2 + grace + timedelta(seconds=row["jitter"])
    # A success before the newest 30 ended runs is too far away to count.
    last = next((at for outcome, at, _, _ in _executed(row) if outcome == "succeeded"), None)
    since = max(last or row["created_at"], row["since"])
    if now - since <= longest or row["running_runs"]:
        return None
    lasting = duration((now - since).total_seconds())
    return Health("stale", f"No success for {lasting}, over twice its interval.", since)


def _slow(row: Row, now: datetime) -> Health | None:
    if row.get("overrun") is not None:
        expected = expected_about(row["overrun_expected"])
        said = f"Run {row['overrun']} overruns: {expected}."
        return Health("slow", said, row["running_since"])
    done = [seconds for outcome, _, seconds, _ in _executed(row) if seconds is not None]
    if len(done) < RUNS_FOR_SLOW:
        return None
    usual = quantiles(done[1:], n=20)[-1]
    if done[0] <= max(usual * 2, usual + 60):
        return None
    return Health("slow", f"The last run took {duration(done[0])}; usually {duration(usual)}.")


def _flaky(row: Row, now: datetime) -> Health | None:
    executed = _executed(row)
    if len(executed) < RUNS_FOR_FLAKY:
        return None
    failed = sum(outcome in _FAILED for outcome, _, _, _ in executed)
    if 1 - failed / len(executed) >= FLAKY_BELOW:
        return None
    return Health("flaky", f"{failed} of the last {plural(len(executed), 'run')} failed.")


def pause_words(row: Row) -> str:
    """Of a paused schedule: ``by ann until 2026-11-21 06:30:00 UTC: moving``."""
    until = f" until {row['paused_until']:%Y-%m-%d %H:%M:%S} UTC" if row["paused_until"] else ""
    return who_and_why(
        f"by {row['paused_by'] or 'somebody'}{until}", short(row["paused_note"] or "")
    )


def _executed(row: Row) -> Sequence[tuple[str, datetime, float | None, str | None]]:
    """Outcome, end, seconds and error of the runs that a handler was executed for, newest first."""
    if not row["outcomes"]:
        return ()
    runs = zip(row["outcomes"], row["finished"], row["durations"], row["errors"], strict=True)
    return [run for run in runs if run[0] in _EXECUTED]


def judge_queue(row: Row, now: datetime) -> tuple[Mark, str]:
    """The word of a queue and the sentence behind it, the gravest that holds."""
    due, nodes = row["due"], row["nodes"]
    if row["paused_at"] is not None:
        return paused_queue(row, due)
    if not nodes and (due or row["blocked"]):
        return Mark("✕", "unserved", "fail"), "No living node takes from it: start one that does."
    if row["blocked"]:
        first = next(iter(unserved(row["blocked"])), row["blocked"][0])
        return mark_of("blocked"), f"{capital(first['waits_detail'])}."
    if not nodes:
        return Mark("○", "unserved", "idle"), "No living node takes from it; nothing waits."
    if row["broken"]:
        return Mark("⊘", "left alone", "late"), row["broken"][0]["why"]
    lag = (now - row["oldest_due"]).total_seconds() if row["oldest_due"] else 0.0
    tone = "late" if lag > LAG_SECONDS else "ok"
    if due and row["running"] >= (row["max_running"] or row["running"] + 1):
        why = f"It executes {plural(row['running'], 'run')}, as many as it may."
        return Mark("▮", "full", tone), why
    if due and row["next_at"] is not None:
        left = duration(max(0.0, (row["next_at"] - now).total_seconds()))
        why = f"As many have started as may, {row['starts']}; the next starts in {left}."
        return Mark("▮", "at its rate", tone), why
    if tone == "late":
        busy = f"{plural(row['free'], 'slot')} free" if row["free"] else "every slot is busy"
        return Mark("▲", "lagging", "late"), f"The oldest waits for {duration(lag)}; {busy}."
    if due:
        return Mark("▶", "flowing", "ok"), "What is due is taken."
    return Mark("✓", "ready", "ok"), "Nothing that is due waits."


def paused_queue(row: Row, due: int) -> tuple[Mark, str]:
    """As `judge_queue`, of one that is paused and has so many due runs."""
    wait = f"{plural(due, 'due run waits', 'due runs wait')}" if due else "nothing waits"
    by = who_and_why(row["paused_by"], short(row["paused_note"] or "")) or "somebody"
    return Mark("‖", "paused", "late" if due else "idle"), f"Paused by {by}; {wait}."


def unserved(waiting: Iterable[Row]) -> list[dict[str, Any]]:
    """Those of `waiting` that no living node can take, one for each reason of a queue."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in waiting:
        if row["waits_for"] in ("no_node", "weight"):
            known = found.setdefault((row["queue"], row["waits_detail"]), {**row, "runs": 0})
            known["runs"] += row["runs"]
    return list(found.values())


def put_aside(waiting: Iterable[Row]) -> list[dict[str, Any]]:
    """Those of `waiting` that were put aside since no node can take them; `runs` counts these."""
    return [{**each, "runs": each["blocked"]} for each in waiting if each["blocked"]]


def circuit_sentence(row: Row) -> str:
    """The state of a circuit breaker as a sentence."""
    return f"{capital(row['words'].rstrip('.'))}."


def pause_of(cluster: Row) -> str | None:
    """By whom and why everything is paused."""
    if cluster["paused_at"] is None:
        return None
    return who_and_why(cluster["paused_by"], cluster["paused_note"]) or "nobody said why"
