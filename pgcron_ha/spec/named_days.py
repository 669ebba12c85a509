"""The days that the parts of a cron expression or a recurrence rule name together.

A month that lacks the day is skipped, as Quartz, Spring and Cronos read it.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import product

from pgcron_ha.spec.bounds import A_DAY
from pgcron_ha.spec.year_days import (
    any_of,
    bit,
    counted_days,
    first_day,
    month_bounds,
    months_of,
    nth_weekday,
    weekdays_of,
    whole_year,
)

# Feb 29 on one weekday: at most 40 years apart (2072 to 2112), since 2100 is no leap year.
LONGEST_GAP_IN_YEARS = 41
# Before the calendar begins, in any zone.
FIRST_YEAR = 1898

# Each month begins on each weekday, in leap years and others.
ALL_SHAPES = range(2000, 2028)


@dataclass(eq=False)
class NamedDays:
    """Days of the months that have one of these numbers, and are one of these weekdays.

    Numbers from the end of a month are negative, the last is -1; so are ordinals of weekdays.
    Monday is 0. Where there are no numbers, or no weekdays, all days are meant.
    """

    months: Sequence[int]
    month_days: Sequence[int]
    weekdays: frozenset[int]
    nth_weekdays: Sequence[tuple[int, int]]
    """Ordinals (of a month, or of the year) and weekdays."""
    workdays: Sequence[int] = ()
    """Those nearest to a day of a month."""
    needs_both: bool = True
    """Else one of number and weekday suffices."""
    is_nth_of_year: bool = False
    _shapes: dict[tuple[int, bool], int] = field(default_factory=dict, init=False)
    _before_years: dict[int, int] = field(default_factory=lambda: {FIRST_YEAR: 0}, init=False)

    def in_year(self, year: int) -> int:
        """The bits of the days that it names (`pgcron_ha.spec.year_days`). There are 14 shapes of
        years: each is found once.
        """
        shape = date(year, 1, 1).weekday(), isleap(year)
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = self._named(year)
        return known

    def _named(self, year: int) -> int:
        days = weekdays = whole_year(year)
        if self.month_days or self.workdays:
            bounds = month_bounds(year)
            days = any_of(counted_days(self.month_days, *bounds[m - 1]) for m in self.months)
            near = product(self.months, self.workdays)
            days |= any_of(_nearest_workday(day, year, month) for month, day in near)
        if self.weekdays or self.nth_weekdays:
            months = [None] if self.is_nth_of_year else self.months
            nths = product(months, self.nth_weekdays)
            weekdays = any_of(nth_weekday(month, day, nth, year) for month, (nth, day) in nths)
            weekdays |= weekdays_of(self.weekdays, year)
        both = days & weekdays if self.needs_both else days | weekdays
        return both & months_of(year, self.months)

    def has(self, day: date) -> bool:
        """Whether it names this day."""
        return bool(self.in_year(day.year) & bit(day))

    def after(self, day: date) -> date | None:
        """The first named day later than ``day``, or None when there is none up to `LAST_YEAR`."""
        return first_day(self.in_year, day + A_DAY, day.year + LONGEST_GAP_IN_YEARS)

    def ever(self) -> bool:
        """Whether any year of the calendar has such a day."""
        return any(map(self.in_year, ALL_SHAPES))

    def count_before(self, day: date) -> int:
        """How many days it names from `FIRST_YEAR` on, before this day. Those of years are
        remembered: each search for an nth asks.
        """
        known = self._before_years
        while len(known) <= day.year - FIRST_YEAR:  # two threads at once write the same
            last = FIRST_YEAR + len(known) - 1
            known[last + 1] = known[last] + self.in_year(last).bit_count()
        earlier = self.in_year(day.year) & (bit(day) - 1)
        return known[max(day.year, FIRST_YEAR)] + earlier.bit_count()


def _nearest_workday(day: int, year: int, month: int) -> int:
    """The bit of the workday of a month next to a day of it (-1: the last), or 0 in a month without
    that day.
    """
    first, length = monthrange(year, month)
    day = length if day == -1 else day
    if day > length:
        return 0
    workdays = (each for each in range(1, length + 1) if (first + each - 1) % 7 < 5)
    return bit(date(year, month, min(workdays, key=lambda each: abs(each - day))))
