"""Which days a rule names, a year at a time.

A year's days are the bits of one number, the lowest for January 1: unions and differences of whole
years cost one operation each.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from operator import or_

from dateutil.easter import easter

from pgcron_ha.spec.bounds import A_DAY, EARLIEST, LATEST
from pgcron_ha.spec.budget import spend

DaysOfYear = Callable[[int], int]
"""The bits of a year's days."""

FIRST_YEAR, LAST_YEAR = EARLIEST.year, LATEST.year
# The calendar repeats after so many years, and with it whatever is not a date.
REPEATS_AFTER = 400


@dataclass(frozen=True)
class Dates:
    """Dates from ``first`` to ``last``, both included."""

    first: date
    last: date

    def __call__(self, year: int) -> int:
        """Those of the year."""
        return stretch(self.first, self.last, year)


def yearly(first: tuple[int, int], last: tuple[int, int], year: int) -> int:
    """The same months and days of each year; over New Year if ``last`` is earlier than ``first``. A
    February 29 is one in leap years only.
    """
    if first > last:
        return yearly(first, (12, 31), year) | yearly((1, 1), last, year)
    begin = date(year, 3, 1) if first == (2, 29) and not isleap(year) else date(year, *first)
    end = date(year, 2, 28) if last == (2, 29) and not isleap(year) else date(year, *last)
    return stretch(begin, end, year)


def around_easter(first: int, last: int, year: int) -> int:
    """Days of the year counted from (western) Easter Sunday."""
    sunday = easter(year)
    return stretch(sunday + first * A_DAY, sunday + last * A_DAY, year)


def nth_weekday(month: int | None, weekday: int, place: int, year: int) -> int:
    """The first (1), last (-1) … of a weekday (Monday is 0) of a month, or of the whole year; no
    day where there are not so many.
    """
    first = date(year, month or 1, 1)
    last = date(year, month or 12, monthrange(year, month or 12)[1])
    if place > 0:
        day = first + ((weekday - first.weekday()) % 7 + (place - 1) * 7) * A_DAY
    else:
        day = last - ((last.weekday() - weekday) % 7 - (place + 1) * 7) * A_DAY
    return bit(day) if first <= day <= last else 0


@lru_cache(maxsize=512)
def month_bounds(year: int) -> tuple[tuple[int, int], ...]:
    """Where the months begin and end, in days since New Year."""
    lengths = (monthrange(year, month)[1] for month in range(1, 13))
    return tuple(pairwise(accumulate(lengths, initial=0)))


def months_of(year: int, months: Iterable[int]) -> int:
    """All days of these months."""
    bounds = month_bounds(year)
    return any_of((1 << bounds[month - 1][1]) - (1 << bounds[month - 1][0]) for month in months)


def counted_days(numbers: Iterable[int], first: int, end: int) -> int:
    """The days with these numbers, from the beginning or (negative) from the end, of those in
    [first, end), which are counted since New Year.
    """
    places = (first + number - 1 if number > 0 else end + number for number in numbers)
    return any_of(1 << place for place in places if first <= place < end)


def whole_year(year: int) -> int:
    """All days of a year."""
    return (1 << (366 if isleap(year) else 365)) - 1


def bit(day: date) -> int:
    """The bit of a day in its year."""
    return 1 << (day.timetuple().tm_yday - 1)


def first_of(bits: int, year: int) -> date:
    """The first of some days."""
    return date(year, 1, 1) + timedelta(days=(bits & -bits).bit_length() - 1)


def first_day(days: DaysOfYear, since: date, last_year: int) -> date | None:
    """The first day not earlier than ``since`` and not after ``last_year`` (or `LAST_YEAR`)."""
    for year in range(since.year, min(last_year, LAST_YEAR) + 1):
        found = days(year)
        if year == since.year:
            found &= -bit(since)
        else:
            spend()
        if found:
            return first_of(found, year)
    return None


def last_day(days: DaysOfYear, until: date, earliest: date) -> date | None:
    """The last day not later than ``until`` and not earlier than ``earliest``."""
    for year in range(until.year, max(earliest.year, FIRST_YEAR) - 1, -1):
        found = days(year)
        if year == until.year:
            found &= (bit(until) << 1) - 1
        if found:
            day = date(year, 1, 1) + timedelta(days=found.bit_length() - 1)
            return None if day < earliest else day
    return None


@lru_cache(maxsize=1024)
def weekdays_of(weekdays: frozenset[int], year: int) -> int:
    """Some days of each week of a year, Monday is 0."""
    first = date(year, 1, 1).weekday()
    week = sum(1 << ((day - first) % 7) for day in weekdays)
    return sum(week << (7 * number) for number in range(53)) & whole_year(year)


def stretch(first: date, last: date, year: int) -> int:
    """The bits of the year's days from first to last."""
    first, last = max(first, date(year, 1, 1)), min(last, date(year, 12, 31))
    if last < first:
        return 0
    length = (last - first) // A_DAY + 1
    return ((1 << length) - 1) << (first.timetuple().tm_yday - 1)


def any_of(masks: Iterable[int]) -> int:
    """The bits that some of the numbers have."""
    return reduce(or_, masks, 0)
