"""The wall times that the parts of a recurrence rule name."""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Final

from pgcron_ha.spec.bounds import A_SECOND
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.expression import WallTimes
from pgcron_ha.spec.named_days import NamedDays
from pgcron_ha.spec.year_days import LAST_YEAR, bit, first_of, months_of, whole_year

YEARLY, MONTHLY, WEEKLY, DAILY = "YEARLY", "MONTHLY", "WEEKLY", "DAILY"
MOST_DAYS: Final = {YEARLY: 366, MONTHLY: 31, WEEKLY: 7, DAILY: 1}
"""Days of a period at most."""

# Years without a day are passed over as fast as anything else is done once.
YEARS_A_STEP: Final = 4


@dataclass(frozen=True)
class RecurringTimes(WallTimes):
    """What the BY parts name in each ``interval``-th period, counted from that of ``first``."""

    first: datetime
    frequency: str
    interval: int
    week_begins: int
    days: NamedDays
    positions: tuple[int, ...]
    """Which of a period's times; empty: all."""
    counted: tuple[datetime, ...] | None = None
    """All of them, if there are only so many."""

    @property
    def may_fire(self) -> bool:
        """False for what would be searched for too long: a position that no period has."""
        most = MOST_DAYS[self.frequency] * self.times_a_day
        return not self.positions or min(map(abs, self.positions)) <= most

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first that is later than ``wall``, or None: none up to ``until``."""
        if self.counted is not None:
            place = bisect_right(self.counted, wall)
            return self.counted[place] if place < len(self.counted) else None
        return next(self.walls(wall.replace(microsecond=0) + A_SECOND, until), None)

    def walls(self, start: datetime, stop: datetime) -> Iterator[datetime]:
        """The wall times in [start, stop], ascending, none earlier than `first`."""
        start = max(start, self.first)
        found = self._chosen(start, stop) if self.positions else self._all(start, stop.year)
        for wall in found:
            if wall > stop:
                return
            if wall >= start:
                yield wall

    def _all(self, start: datetime, last_year: int) -> Iterator[datetime]:
        for day in self._days(start.date(), last_year):
            spend()
            # All but the last of those that have passed, which may be the start.
            begin = self.times_up_to(start) - 1 if day == start.date() else 0
            for place in range(max(begin, 0), self.times_a_day):
                yield self.at(day, place)

    def _chosen(self, start: datetime, stop: datetime) -> Iterator[datetime]:
        """The times at the positions of each period; the week of `first` begins with its day."""
        begin = self._begin_of_period(start.date())
        if self.frequency == WEEKLY:
            begin = max(begin, self.first.date())
        for _, days in groupby(self._days(begin, stop.year + 1), key=self._begin_of_period):
            period = list(days)
            spend(1 + (len(period) + len(self.positions)) // 8)
            of_day = self.times_a_day
            total = len(period) * of_day
            near = (position for position in self.positions if abs(position) <= total)
            for place in sorted({at - 1 if at > 0 else total + at for at in near}):
                yield self.at(period[place // of_day], place % of_day)

    def _days(self, since: date, last_year: int) -> Iterator[date]:
        """The days of its periods that the parts name, not earlier than ``since``."""
        step = self.interval if self.frequency == YEARLY else 1
        begin = since.year + (self.first.year - since.year) % step
        for place, year in enumerate(range(begin, min(last_year, LAST_YEAR) + 1, step)):
            mask = self.days.in_year(year)
            if mask or place % YEARS_A_STEP == 0:
                spend()
            if mask and self.interval > step:
                mask &= self._reached(year)
            if year == since.year:
                mask &= -bit(since)
            while mask:
                yield first_of(mask, year)
                mask &= mask - 1

    def _begin_of_period(self, day: date) -> date:
        if self.frequency == YEARLY:
            return date(day.year, 1, 1)
        if self.frequency == MONTHLY:
            return day.replace(day=1)
        if self.frequency == WEEKLY:
            return day - timedelta(days=(day.weekday() - self.week_begins) % 7)
        return day

    def _reached(self, year: int) -> int:
        """The days of a year in the months, weeks or days that the interval reaches."""
        new_year, length = date(year, 1, 1), 366 if isleap(year) else 365
        begin = self._begin_of_period(self.first.date())
        if self.frequency == MONTHLY:
            passed = (year - begin.year) * 12 - begin.month
            reached = [m for m in range(1, 13) if (passed + m) % self.interval == 0]
            return months_of(year, reached)
        passed = (new_year - begin).days
        step, width = (self.interval * 7, 7) if self.frequency == WEEKLY else (self.interval, 1)
        first = -passed % step - step  # a week may have begun in the year before
        spend(length // step // 8)
        found = sum(((1 << width) - 1) << (at + step) for at in range(first, length, step))
        return found >> step & whole_year(year)
