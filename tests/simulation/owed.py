"""A simple model of what schedules owe: it knows when each timing was written and how often it
fires, who paused what until when, which single fires somebody changed, and nothing of how the
database decides. And what the database says, read in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from tests.simulation.real import FIRST_INSTANT, RealStore

INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Timing:
    """From an instant on it fires at the whole multiples of so many seconds, but on closed days."""

    since: datetime
    period: int
    closed: frozenset[date] = frozenset()

    def fires(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Those after the one and up to the other instant."""
        step = timedelta(seconds=self.period)
        fire = FIRST_INSTANT + ((after - FIRST_INSTANT) // step + 1) * step
        while fire <= until:
            if fire.date() not in self.closed:
                yield fire
            fire += step

    def is_like(self, other: Timing) -> bool:
        return (self.period, self.closed) == (other.period, other.closed)


@dataclass
class Pause:
    """While it lasts nothing is owed but a word about it."""

    began: datetime
    until: datetime | None = None
    ended: datetime | None = None
    drops: bool = True
    """What it holds back never runs."""
    edited_at: datetime | None = None
    """What the timing before named is told up to there, even if the pause was to end earlier."""

    def end(self, now: datetime) -> datetime:
        ended = self.ended or now
        return ended if self.until is None else min(self.until, ended)


@dataclass
class Change:
    """What somebody wants of one fire."""

    action: str
    due_at: datetime | None = None
    args: str | None = None


@dataclass
class Bound:
    """It ends after so many runs, since then."""

    since: datetime
    runs: int
    most: int


@dataclass
class Schedule:
    """What the model keeps of a schedule."""

    id: int
    name: str
    uses_calendar: bool
    pauses_itself: bool
    after_pause: str = "drop"
    depends: bool = False
    args: str = "{}"
    timings: list[Timing] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    changes: dict[datetime, Change] = field(default_factory=dict)
    by_hand: set[datetime] = field(default_factory=set)
    """Fires that somebody settled apart from the others: a range may be written around one."""
    bound: Bound | None = None
    forgotten_at: datetime = FIRST_INSTANT
    """Failures before it don't count."""

    @property
    def timing(self) -> Timing:
        return self.timings[-1]

    @property
    def pause(self) -> Pause | None:
        """The one under way."""
        if self.pauses and self.pauses[-1].ended is None:
            return self.pauses[-1]
        return None

    def is_edited(self, now: datetime) -> None:
        if self.pause is not None:
            self.pause.edited_at = now

    def is_timed(self, timing: Timing) -> None:
        if not self.timings or not self.timing.is_like(timing):
            self.timings.append(timing)

    def owed(self, until: datetime) -> Iterator[datetime]:
        """Each instant that must have an answer; an edit decides nothing before itself."""
        ends = [*(timing.since for timing in self.timings[1:]), until]
        for timing, end in zip(self.timings, ends, strict=True):
            yield from timing.fires(timing.since, min(end, until))


@dataclass
class Backfill:
    """Who asks for it gets the instants of the timing as it stood."""

    id: int
    schedule: Schedule
    instants: Sequence[datetime]
    """In the order in which they are looked at."""
    parallelism: int
    if_ran: str
    state: str = "open"
    looked_at: int = 0
    """So many of the instants."""


@dataclass(frozen=True)
class Seen:
    """What the database says at one moment."""

    now: datetime
    schedules: dict[int, Any]
    """Schedule and cursor."""
    rows: dict[int, dict[datetime, Any]]
    """The ledger's single fires."""
    ranges: dict[int, list[Any]]
    """Ascending."""
    runs: dict[int, Any]
    """Alive or over (`outcome`)."""
    backfills: dict[int, Any]
    is_giving_back: bool

    def of_fire(self, schedule: int) -> dict[datetime, list[Any]]:
        """The runs of each fire, and those that were made of them."""
        found: dict[datetime, list[Any]] = {}
        for run in self.runs.values():
            if run["schedule_id"] == schedule and run["origin"] != "manual":
                found.setdefault(run["fire"], []).append(run)
        return found


def look(real: RealStore) -> Seen:
    """All of it."""

    def ask(query: str) -> list[Any]:
        return list(real.wait(real.connection.fetch(query)))

    schedules = ask(
        "SELECT s.id, s.enabled, s.paused_until, c.watermark, c.next_fire, c.status"
        " FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id"
    )
    rows: dict[int, dict[datetime, Any]] = {}
    for row in ask("SELECT schedule_id, fire_at, decision, run_id FROM pgcron.occurrence"):
        rows.setdefault(row["schedule_id"], {})[row["fire_at"]] = row
    ranges: dict[int, list[Any]] = {}
    for row in ask(
        "SELECT schedule_id, first_at, last_at, reason FROM pgcron.missed ORDER BY first_at"
    ):
        ranges.setdefault(row["schedule_id"], []).append(row)
    columns = "id, schedule_id, schedule, origin, args, attempt, due_at, created_at, created_by"
    runs = ask(
        f"SELECT {columns}, coalesce(scheduled_for, nominal_for) AS fire, state, overlap_slot,"
        " NULL AS outcome, NULL AS finished_at FROM pgcron.run UNION ALL"
        f" SELECT {columns}, coalesce(scheduled_for, nominal_for), 'over', NULL, outcome,"
        " finished_at FROM pgcron.history"
    )
    assert len({run["id"] for run in runs}) == len(runs), "a run is alive and over"
    backfills = ask(
        "SELECT id, state, reached, planned, already, created, succeeded, failed, error"
        " FROM pgcron.backfill"
    )
    given_back = ask("SELECT EXISTS (SELECT FROM pgcron.given_back)")
    return Seen(
        real.now,
        {row["id"]: row for row in schedules},
        rows,
        ranges,
        {row["id"]: row for row in runs},
        {row["id"]: row for row in backfills},
        given_back[0][0],
    )
