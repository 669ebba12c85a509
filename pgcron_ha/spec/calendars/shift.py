"""Spec lines that name a calendar: ``not in holidays``, ``only in business-days, move next``.

``not in`` leaves out the calendar's days, ``only in`` all others. What would have fired on such a
day is skipped or, with ``move next`` and ``move previous``, moves. A day is that of the schedule's
zone.

What would fire on a day that a line with ``move`` takes fires at the same wall time of the next (or
previous) day that is allowed: one that neither a calendar nor a ``not`` line takes as a whole. If
that time of that day is left out, or no day within `MOST_DAYS_MOVED` is allowed, it does not fire.
A wall time that the zone skips is the end of the gap; one that it repeats is its first pass. Two
fires that meet are one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import A_DAY, AN_INSTANT, LATEST, NextUntil
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.calendars.calendar import Calendar
from pgcron_ha.spec.exclusions import DaysExclusion, Exclusion
from pgcron_ha.spec.rules import FireRule, fires_a_day
from pgcron_ha.spec.year_days import REPEATS_AFTER, any_of, first_day, last_day, whole_year
from pgcron_ha.spec.zones import instant_at, wall_time

MOST_DAYS_MOVED = 92
# What fires more often than hourly is not moved: it would only meet the fires of the other day.
MOST_MOVED_A_DAY = 24
# Target days with cached fires: a pass reads a few days again and again.
CACHED_DAYS = 16

_FAR = timedelta(days=MOST_DAYS_MOVED)


@dataclass(frozen=True)
class CalendarUse:
    """The parsed line."""

    canonical: str
    """The line's text, the same for all spellings."""
    name: str
    keeps: bool
    """``only in``: the calendar's days are the allowed ones."""
    move: str | None
    """``next``, ``previous``, or None: skip."""


@dataclass(frozen=True)
class CalendarExclusion(DaysExclusion):
    """A line with its calendar: the days that it takes."""

    use: CalendarUse
    calendar: Calendar

    def taken(self, year: int) -> int:
        """The bits of the days that it takes."""
        days = self.calendar.days(year)
        return whole_year(year) & ~days if self.use.keeps else days

    def why(self, day: date) -> str:
        """By which calendar a day is taken, and what is noted there."""
        if self.use.keeps:
            because = self.calendar.taken_away_by(day)
            reported = f"calendar {self.use.name}: {day} is not one of its days"
            return f"{reported} ({because})" if because else reported
        return " ".join([f"calendar {self.use.name}: {day}", self.calendar.note(day)]).rstrip()

    def last_year(self, day: date) -> int:
        """The calendar repeats after 400 years, and with it what is not a date."""
        return max(day.year, self.calendar.last_date_year) + REPEATS_AFTER


@dataclass(eq=False)
class Moves:
    """The fires of a spec with calendar lines that move fires. Safe to share between threads.

    ``_others`` are the lines that leave out and don't move; ``_nominal`` finds the fires of the
    rules that these leave, before they are moved.
    """

    lines: Sequence[CalendarExclusion]
    _rules: Sequence[FireRule]
    _others: Sequence[Exclusion]
    _nominal: NextUntil

    def __post_init__(self) -> None:
        """Raises `InvalidSpec` for rules that fire too often."""
        if any(fires_a_day(rule) > MOST_MOVED_A_DAY for rule in self._rules):
            raise InvalidSpec(
                f"the spec fires more than {MOST_MOVED_A_DAY} times a day, and moves",
                "fires that are so frequent don't move: they would meet those of the day they move"
                " to",
                "leave `move` out to skip them",
            )
        self.timezone = self.lines[0].timezone
        self.is_forward = self.lines[0].use.move == "next"
        self._moved_into = lru_cache(maxsize=CACHED_DAYS)(self._find_moved_into)

    def next_until(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire in (after, until], or None.

        Raises `TooManySteps` when too many days in a row have none.
        """
        target = self._allowed_from(day_of(self.timezone, after))
        reach = until if self.is_forward else min(until, LATEST - 2 * _FAR) + 2 * _FAR
        while True:
            spend(3)
            if target is None or start_of(self.timezone, target) > until:
                return None
            fire = self._fire_of(target, after)
            if fire is not None:
                return fire if fire <= until else None
            end = start_of(self.timezone, target + A_DAY)
            nominal = self._nominal(max(after, end - AN_INSTANT), reach)
            if nominal is None:
                return None
            target = self._look_next(day_of(self.timezone, nominal), target)

    def takes(self, day: date) -> CalendarExclusion | None:
        """The first of the lines that takes this day."""
        return next((line for line in self.lines if line.takes_day(day)), None)

    def destination(self, nominal: datetime) -> datetime | None:
        """Where a fire of a day that is taken moves to, or None: it does not fire."""
        day = day_of(self.timezone, nominal)
        target = self._allowed_from(day) if self.is_forward else self._allowed_before(day)
        if target is None or abs(target - day) > _FAR:
            return None
        moved = self._at(target, wall_time(self.timezone, nominal).time())
        return None if self._leaves_out(moved) else moved

    def _look_next(self, day: date, behind: date) -> date | None:
        """The first day on which the first fire that is not looked at yet may be."""
        if self.takes(day) is not None and not self.is_forward:
            before = self._allowed_before(day)
            if before is not None and before > behind:
                return before
        return self._allowed_from(day)

    def _fire_of(self, target: date, after: datetime) -> datetime | None:
        into = self._moved_into(target)
        place = bisect_right(into, after)
        moved = into[place] if place < len(into) else None
        begin = start_of(self.timezone, target) - AN_INSTANT
        end = start_of(self.timezone, target + A_DAY)
        own = self._nominal(max(after, begin), end - AN_INSTANT) if end > after else None
        return min((fire for fire in (moved, own) if fire is not None), default=None)

    def _find_moved_into(self, target: date) -> tuple[datetime, ...]:
        """The fires of other days that come to this (allowed) day, ascending."""
        first, end = target - _FAR, target
        if self.is_forward:
            before = self._allowed_before(target - A_DAY)
            first = first if before is None else before + A_DAY
        else:
            following = self._allowed_from(target + A_DAY)
            first, end = target + A_DAY, target + _FAR + A_DAY
            end = end if following is None else min(end, following)
        after, until = (start_of(self.timezone, day) - AN_INSTANT for day in (first, end))
        times: set[time] = set()
        while (fire := self._nominal(after, until)) is not None:
            times.add(wall_time(self.timezone, fire).time())
            after = fire
        spend(len(times))
        found = {self._at(target, one) for one in times}
        return tuple(sorted(fire for fire in found if not self._leaves_out(fire)))

    def _at(self, day: date, clock: time) -> datetime:
        return instant_at(self.timezone, datetime.combine(day, clock)).replace(tzinfo=UTC)

    def _leaves_out(self, fire: datetime) -> bool:
        return any(line.end(fire, self._rules[0]) is not None for line in self._others)

    def _allowed(self, year: int) -> int:
        """The bits of the days that no line takes as a whole."""
        lines = (*self.lines, *self._others)
        return whole_year(year) & ~any_of(line.taken(year) for line in lines)

    def _allowed_from(self, since: date) -> date | None:
        spend()
        last_year = max(line.last_year(since) for line in self.lines)
        day = first_day(self._allowed, since, last_year)
        return None if day is None or day >= LATEST.date() - A_DAY else day

    def _allowed_before(self, until: date) -> date | None:
        return last_day(self._allowed, until, until - _FAR)


@lru_cache(maxsize=8192)
def start_of(timezone: str, day: date) -> datetime:
    """When a day begins in a zone: at its midnight, or where the clocks have skipped that."""
    return instant_at(timezone, datetime.combine(day, time.min)).replace(tzinfo=UTC)


def day_of(timezone: str, instant: datetime) -> date:
    """The last day that has begun, which is what calendars show; clocks that are put back over
    midnight don't bring the day before back.
    """
    day = wall_time(timezone, instant).date()
    return day + A_DAY if start_of(timezone, day + A_DAY) <= instant else day
