"""Which days a cron expression names.

A month that lacks the day is skipped, as Quartz, Spring and Cronos read it. Which number is which
weekday is croniter's answer.

There are 14 shapes of years, by the weekday of the first day and whether it is a leap year; what an
expression names in one is found once.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import product

from croniter import croniter

from pgcron_ha.spec.cron.fields import CronField
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


class CronDays:
    """The days that the day, month and weekday fields name together.

    When one of the two day fields begins with ``*`` both must match, else either (cron's rule).
    """

    def __init__(self, day: CronField, month: CronField, weekday: CronField) -> None:
        self.fields = day, month, weekday
        self.needs_both = day.starred or weekday.starred
        self.months = month.values
        self.workdays = tuple(mark[:-1] for mark in day.marks if mark.endswith("W"))
        """Those nearest to these days of a month; L: to the last."""
        plain = (mark for mark in day.marks if not mark.endswith("W"))
        self.month_days = (*day.values, *(-1 - int(mark[2:] or 0) for mark in plain))
        """From the end of a month they are negative, the last is -1."""
        self.nth_weekdays = tuple(map(_nth_weekday, weekday.marks))
        """Ordinal (-1: the last of a month) and weekday."""
        self._shapes: dict[tuple[int, bool], int] = {}
        self._before_years = {FIRST_YEAR: 0}

    def in_year(self, year: int) -> int:
        """The bits of the days that it names (`pgcron_ha.spec.year_days`)."""
        shape = date(year, 1, 1).weekday(), isleap(year)
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = self._named(year)
        return known

    def _named(self, year: int) -> int:
        days, bounds = whole_year(year), month_bounds(year)
        if not self.fields[0].everything:
            days = any_of(counted_days(self.month_days, *bounds[m - 1]) for m in self.months)
        for month, workday in product(self.months, self.workdays):
            days |= _nearest_workday(workday, year, month)
        weekdays = weekdays_of(frozenset(map(_from_monday, self.fields[2].values)), year)
        for month, (place, weekday) in product(self.months, self.nth_weekdays):
            weekdays |= nth_weekday(month, _from_monday(weekday), place, year)
        both = days & weekdays if self.needs_both else days | weekdays
        return both & months_of(year, self.months)

    def has(self, day: date) -> bool:
        """Whether the expression names this day."""
        return bool(self.in_year(day.year) & bit(day))

    def after(self, day: date) -> date | None:
        """The first named day later than ``day``, or None when there is none up to `LAST_YEAR`."""
        return first_day(self.in_year, day + timedelta(days=1), day.year + LONGEST_GAP_IN_YEARS)

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


@lru_cache(maxsize=7)
def _from_monday(weekday: int) -> int:
    """Cron's number of a weekday, Sunday is 0, as `datetime` counts, Monday is 0."""
    following: datetime = croniter(f"0 0 * * {weekday}", datetime(2001, 1, 1)).get_next(datetime)
    return following.weekday()


def _nth_weekday(mark: str) -> tuple[int, int]:
    """The ordinal and the weekday of ``5#2`` and ``L5``."""
    if mark.startswith("L"):
        return -1, int(mark[1:])
    weekday, nth = mark.split("#")
    return int(nth), int(weekday)


def _nearest_workday(number: str, year: int, month: int) -> int:
    """The bit of the workday of a month next to a day of it, or 0 in a month without that day."""
    first, length = monthrange(year, month)
    day = length if number == "L" else int(number)
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 5:  # Saturday: the Friday before, but within the month
        day += -1 if day > 1 else 2
    elif weekday == 6:  # Sunday: the Monday after, but within the month
        day += 1 if day < length else -2
    return bit(date(year, month, day))
