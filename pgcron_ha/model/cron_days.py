"""Which days of a month a cron expression names.

The calendar part is croniter's, asked with clean operands only (one field at a time, plain lists,
naive local time), once for each field and shape of a month: a month is known by its length and the
weekday of its first day, so there are 28 shapes. What croniter has not, or reads in another way
than Quartz, Spring and Cronos do, is counted here: ``LW``, ``L-n`` and ``nW``, where a month that
lacks the day is skipped.

Day sets are bit masks: bit ``d`` stands for day ``d``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import product

from croniter import croniter

from pgcron_ha.model.cron_fields import CronField

# Feb 29 on one weekday: at most 40 years apart (2072 to 2112), since 2100 is no leap year.
LONGEST_GAP_IN_YEARS = 41
# After this year nothing fires: datetime ends with 9999.
LAST_YEAR = 9998

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DISTINCT_FIELDS = 4096


class MonthDays:
    """The days that the day, month and weekday fields name together.

    When one of the two day fields begins with ``*`` both must match, else either (cron's rule).
    """

    def __init__(self, day: CronField, month: CronField, weekday: CronField) -> None:
        self._day = day
        self._months = frozenset(month.values)
        self._weekday = weekday
        self._masks: dict[tuple[int, int], int] = {}

    def in_month(self, year: int, month: int) -> int:
        """The mask of the month's days; 0 when it has none."""
        if month not in self._months:
            return 0
        length = _length(year, month)
        first = date(year, month, 1).weekday()
        mask = self._masks.get((length, first))
        return self._mask(length, first) if mask is None else mask

    def has(self, day: date) -> bool:
        """Whether the expression names this day."""
        return bool(self.in_month(day.year, day.month) >> day.day & 1)

    def after(self, day: date) -> date | None:
        """The first named day later than ``day``, or None when there is none up to `LAST_YEAR`."""
        year, month = day.year, day.month
        mask = self.in_month(year, month) >> (day.day + 1) << (day.day + 1)
        for _ in range(LONGEST_GAP_IN_YEARS * 12):
            if mask:
                return date(year, month, (mask & -mask).bit_length() - 1)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > LAST_YEAR:
                return None
            mask = self.in_month(year, month)
        return None

    def ever(self) -> bool:
        """Whether any month of the calendar has such a day; every month takes all its shapes."""
        lengths = {_LENGTHS[month] for month in self._months}
        if 2 in self._months:
            lengths.add(29)
        shapes = product(sorted(lengths, reverse=True), range(7))
        return any(self._mask(length, first) for length, first in shapes)

    def _mask(self, length: int, first: int) -> int:
        days = _days_of(self._day, length, first)
        weekdays = _weekdays_of(self._weekday, length, first)
        both = self._day.starred or self._weekday.starred
        mask = days & weekdays if both else days | weekdays
        self._masks[length, first] = mask
        return mask


def _length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


@lru_cache(maxsize=_DISTINCT_FIELDS)
def _days_of(field: CronField, length: int, first: int) -> int:
    plain = [str(value) for value in field.values]
    plain += [mark for mark in field.marks if mark == "L"]
    mask = _named_by_croniter(f"0 0 {','.join(plain)} * *", length, first) if plain else 0
    for mark in field.marks:
        if mark != "L":
            mask |= _counted_day(mark, length, first)
    return mask


@lru_cache(maxsize=_DISTINCT_FIELDS)
def _weekdays_of(field: CronField, length: int, first: int) -> int:
    mask = 0
    # croniter refuses or misreads plain weekdays beside `#` and `L`: two operands.
    for operand in (field.values, field.marks):
        if operand:
            text = f"0 0 * * {','.join(map(str, operand))}"
            mask |= _named_by_croniter(text, length, first)
    return mask


def _counted_day(mark: str, length: int, first: int) -> int:
    """The one day (as a mask) that ``LW``, ``L-n`` or ``nW`` names, or 0 in a month without it."""
    if mark.startswith("L-"):
        day = length - int(mark[2:])
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


def _named_by_croniter(text: str, length: int, first: int) -> int:
    month = _month_of_shape(length, first)
    fires = croniter(text, month - timedelta(seconds=1), ret_type=datetime)
    mask = 0
    for _ in range(length + 1):
        fire: datetime = fires.get_next()
        if (fire.year, fire.month) != (month.year, month.month):
            break
        mask |= 1 << fire.day
    return mask


@lru_cache(maxsize=28)
def _month_of_shape(length: int, first: int) -> datetime:
    months = (datetime(year, month, 1) for year, month in product(range(2000, 2028), range(1, 13)))
    return next(m for m in months if (_length(m.year, m.month), m.weekday()) == (length, first))
