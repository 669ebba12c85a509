"""Which days a line of a calendar names, a year at a time.

A year's days are the bits of one number, the lowest for January 1: unions and differences of whole
years cost one operation each.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Protocol, runtime_checkable

from dateutil.easter import easter

from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.spec.budget import spend

DaysOfYear = Callable[[int], int]
"""The bits of a year's days."""

FIRST_YEAR, LAST_YEAR = EARLIEST.year, LATEST.year - 1
# The calendar repeats after 400 years, and with it whatever is not a date.
REPEATS_AFTER = 400

_DAY = timedelta(days=1)


@runtime_checkable
class DayRule(Protocol):
    """One line of a calendar."""

    def days(self, year: int) -> int:
        """The bits of the days of the year that it names."""


@dataclass(frozen=True)
class Dates:
    """Dates from ``first`` to ``last``, both included."""

    first: date
    last: date

    def days(self, year: int) -> int:
        """Those of the year."""
        first, last = max(self.first, date(year, 1, 1)), min(self.last, date(year, 12, 31))
        return stretch(first, last)


@dataclass(frozen=True)
class Yearly:
    """The same dates of each year; over New Year if ``last`` is earlier than ``first``."""

    first: tuple[int, int]
    last: tuple[int, int]

    def days(self, year: int) -> int:
        """Those of the year; a February 29 is one in leap years only."""
        if self.first <= self.last:
            return self._between(year, self.first, self.last)
        return self._between(year, self.first, (12, 31)) | self._between(year, (1, 1), self.last)

    def _between(self, year: int, low: tuple[int, int], high: tuple[int, int]) -> int:
        first = date(year, 3, 1) if low == (2, 29) and not isleap(year) else date(year, *low)
        last = date(year, 2, 28) if high == (2, 29) and not isleap(year) else date(year, *high)
        return stretch(first, last)


@dataclass(frozen=True)
class AroundEaster:
    """Days counted from (western) Easter Sunday."""

    first: int
    last: int

    def days(self, year: int) -> int:
        """Those of the year."""
        sunday = easter(year)
        return stretch(
            sunday + timedelta(days=self.first), sunday + timedelta(days=self.last), within=year
        )


@dataclass(frozen=True)
class NthWeekday:
    """The first, second … weekday of a month; the last one if ``place`` is 0."""

    month: int
    weekday: int
    place: int

    def days(self, year: int) -> int:
        """The day; no day in a month that has no fifth one."""
        begins, length = monthrange(year, self.month)
        first = (self.weekday - begins) % 7 + 1
        day = first + 7 * ((length - first) // 7 if self.place == 0 else self.place - 1)
        return bit(date(year, self.month, day)) if day <= length else 0


@dataclass(frozen=True)
class Weekdays:
    """Some days of each week, Monday is 0."""

    weekdays: frozenset[int]

    def days(self, year: int) -> int:
        """Those of the year."""
        return weekdays_of(year, self.weekdays)


def whole_year(year: int) -> int:
    """All days of a year."""
    return (1 << (366 if isleap(year) else 365)) - 1


def bit(day: date) -> int:
    """The bit of a day in its year."""
    return 1 << (day.timetuple().tm_yday - 1)


def first_day(days: DaysOfYear, since: date, last_year: int) -> date | None:
    """The first day not earlier than ``since`` and not after ``last_year`` (or `LAST_YEAR`)."""
    left = days(since.year) >> (since.timetuple().tm_yday - 1)
    if left:
        return since + timedelta(days=(left & -left).bit_length() - 1)
    for year in range(since.year + 1, min(last_year, LAST_YEAR) + 1):
        spend()
        found = days(year)
        if found:
            return date(year, 1, 1) + timedelta(days=(found & -found).bit_length() - 1)
    return None


def last_day(days: DaysOfYear, until: date, earliest: date) -> date | None:
    """The last day not later than ``until`` and not earlier than ``earliest``."""
    found = days(until.year) & ((bit(until) << 1) - 1)
    year = until.year
    while not found and year > max(earliest.year, FIRST_YEAR):
        year -= 1
        found = days(year)
    day = date(year, 1, 1) + timedelta(days=found.bit_length() - 1) if found else None
    return None if day is None or day < earliest else day


@lru_cache(maxsize=1024)
def weekdays_of(year: int, weekdays: frozenset[int]) -> int:
    """Some days of each week of a year, Monday is 0."""
    first = date(year, 1, 1).weekday()
    week = sum(1 << ((day - first) % 7) for day in weekdays)
    return sum(week << (7 * number) for number in range(53)) & whole_year(year)


def stretch(first: date, last: date, within: int | None = None) -> int:
    """The bits from first to last, dates of one year, or of those ``within`` that one."""
    if within is not None:
        first, last = max(first, date(within, 1, 1)), min(last, date(within, 12, 31))
    if last < first:
        return 0
    length = (last - first) // _DAY + 1
    return ((1 << length) - 1) << (first.timetuple().tm_yday - 1)
