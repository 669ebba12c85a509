"""Which days a cron expression names.

A year is known by the weekday of its first day and whether it is a leap year, a month by that of
its own and its length, so there are 14 shapes of years and 28 of months; what an expression names
in one is found once. Which days are a weekday is croniter's answer, on naive local time. Everything
that depends on the length of the month is counted here, within bounds that croniter does not keep
(``L0,L1,L2`` took it 100 ms), and as Quartz, Spring and Cronos read it: a month that lacks the day
is skipped.

Days are the bits of a number: of a year the lowest is January 1 (`pgcron_ha.spec.year_days`),
of a month bit ``d`` is day ``d``.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date, datetime, timedelta
from functools import lru_cache

from croniter import croniter_range

from pgcron_ha.spec.cron.fields import CronField
from pgcron_ha.spec.year_days import any_of, bit, first_day

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
        self._shapes: dict[tuple[int, bool], int] = {}
        self._months: dict[tuple[int, int], int] = {}
        self._before_years = {FIRST_YEAR: 0}

    def in_year(self, year: int) -> int:
        """The bits of the days that it names."""
        shape = date(year, 1, 1).weekday(), isleap(year)
        known = self._shapes.get(shape)
        if known is None:
            known, begin = 0, 0
            for month in range(1, 13):
                first, length = monthrange(year, month)
                if month in self.fields[1].values:
                    known |= self._in_month(first, length) >> 1 << begin
                begin += length
            self._shapes[shape] = known
        return known

    def _in_month(self, first: int, length: int) -> int:
        known = self._months.get((first, length))
        if known is None:
            day, _, weekday = self.fields
            days, weekdays = _days_of(day, length, first), _weekdays_of(weekday, length, first)
            known = days & weekdays if day.starred or weekday.starred else days | weekdays
            self._months[first, length] = known
        return known

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


def _days_of(field: CronField, length: int, first: int) -> int:
    plain = (1 << day for day in field.values if day <= length)
    return any_of((*plain, *(_counted_day(mark, length, first) for mark in field.marks)))


def _weekdays_of(field: CronField, length: int, first: int) -> int:
    if field.everything:
        return _every_day(length)
    plain = (_weekday_mask(weekday, length, first) for weekday in field.values)
    return any_of((*plain, *(_counted_weekday(mark, length, first) for mark in field.marks)))


def _every_day(length: int) -> int:
    return (1 << length + 1) - 2


def _weekday_mask(weekday: int, length: int, first: int) -> int:
    """``weekday`` as cron counts, Sunday is 0; ``first`` as `datetime` does, Monday is 0."""
    return _weekday_in_31_days((weekday - first) % 7) & _every_day(length)


@lru_cache(maxsize=7)
def _weekday_in_31_days(weekday: int) -> int:
    """The days that croniter gives this weekday in a month of 31 days that begins on a Monday."""
    begin = datetime(2001, 1, 1)
    days = croniter_range(begin, begin + timedelta(days=30), f"0 0 * * {weekday}")
    return sum(1 << day.day for day in days)


def _counted_weekday(mark: str, length: int, first: int) -> int:
    """The one day (as a mask) that ``5#2`` or ``L5`` names, or 0 in a month without it."""
    if mark.startswith("L"):
        return 1 << _weekday_mask(int(mark[1:]), length, first).bit_length() - 1
    weekday, nth = mark.split("#")
    seven_days = 0b1111_1110 << 7 * (int(nth) - 1)  # 1 to 7, 8 to 14, …
    return _weekday_mask(int(weekday), length, first) & seven_days


def _counted_day(mark: str, length: int, first: int) -> int:
    """The one day (as a mask) that ``L``, ``LW``, ``L-n`` or ``nW`` names, or 0 in a month without
    it.
    """
    if mark == "L" or mark.startswith("L-"):
        day = length - int(mark[2:] or 0)
        return 1 << day if day >= 1 else 0
    day = length if mark == "LW" else int(mark[:-1])
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 5:  # Saturday: the Friday before, but within the month
        day += -1 if day > 1 else 2
    elif weekday == 6:  # Sunday: the Monday after, but within the month
        day += 1 if day < length else -2
    return 1 << day
