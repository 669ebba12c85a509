"""``every 2nd of 0 9 * * mon``: of the wall times that a cron expression names only each nth.

They are counted from a wall time, the first at or after it being one that fires, before it and
after it: nothing is remembered, so that no outage, restart or edit of other lines shifts them.
What is left out by other lines is counted all the same: a holiday doesn't turn odd weeks into even.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.expression import CronExpression
from pgcron_ha.spec.text import ordinal

SMALLEST_STEP, LARGEST_STEP = 2, 10_000
START = datetime(1970, 1, 1)
"""The wall time that is counted from when none is written."""

_FIRST_YEAR = 1898  # before the calendar begins, in any zone
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class NthExpression(CronExpression):
    """A cron expression that names only each ``step``-th of its wall times."""

    step: int
    anchor: datetime

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first named wall time later than ``wall``, or None: none on a day up to ``until``."""
        left_out = -self._number(wall) % self.step
        each_day = len(self.hours) * len(self.minutes) * len(self.seconds)
        day: date | None = wall.date()
        last = until.date()
        if self.days.has(wall.date()):
            left_out += self._times_up_to(wall)
        else:
            day = self.days.after(wall.date())
        while day is not None and day <= last and left_out >= each_day:
            spend()
            in_month = (self.days.in_month(day.year, day.month) >> day.day).bit_count()
            if left_out >= in_month * each_day:  # not in this month
                left_out -= in_month * each_day
                length = monthrange(day.year, day.month)[1]
                day = self.days.after(day.replace(day=length))
            else:
                left_out -= each_day
                day = self.days.after(day)
        return None if day is None or day > last else self._at(day, left_out)

    def _at(self, day: date, place: int) -> datetime:
        """The time of a day with ``place`` earlier times on that day."""
        place, second = divmod(place, len(self.seconds))
        hour, minute = divmod(place, len(self.minutes))
        clock = self.hours[hour], self.minutes[minute], self.seconds[second]
        return datetime(day.year, day.month, day.day, *clock)

    def count_between(self, after: datetime, until: datetime, most: int) -> int:
        """How many wall times it names in (after, until], both naive, exact."""
        first, end = self._number(after), self._number(until)
        return max(0, -(-end // self.step) - -(-first // self.step))

    def _number(self, wall: datetime) -> int:
        """How many of the expression lie in [anchor, wall]; before the anchor, less than none."""
        return self._total(wall) - self._before_anchor

    @cached_property
    def _before_anchor(self) -> int:
        return self._total(self.anchor - _SECOND)

    def _total(self, wall: datetime) -> int:
        """How many wall times up to ``wall`` the expression names since `_FIRST_YEAR`."""
        year, month, day = wall.year, wall.month, wall.day
        days = self._days_before(year)
        days += sum(self.days.in_month(year, before).bit_count() for before in range(1, month))
        mask = self.days.in_month(year, month)
        days += (mask & ((1 << day) - 1)).bit_count()
        today = self._times_up_to(wall) if mask >> day & 1 else 0
        return days * len(self.hours) * len(self.minutes) * len(self.seconds) + today

    def _days_before(self, year: int) -> int:
        known = self._days_before_years
        while len(known) <= year - _FIRST_YEAR:  # two threads at once write the same
            last = _FIRST_YEAR + len(known) - 1
            days = sum(self.days.in_month(last, month).bit_count() for month in range(1, 13))
            known[last + 1] = known[last] + days
        return known[max(year, _FIRST_YEAR)]

    @cached_property
    def _days_before_years(self) -> dict[int, int]:
        return {_FIRST_YEAR: 0}


def nth_of(expression: CronExpression, step: int, anchor: datetime) -> NthExpression:
    """Each ``step``-th of the expression's wall times; raises `InvalidSpec` for another step."""
    if not SMALLEST_STEP <= step <= LARGEST_STEP:
        raise InvalidSpec(
            f"every {ordinal(step)} is out of range",
            f"it is every {ordinal(SMALLEST_STEP)} to every {ordinal(LARGEST_STEP)}",
            'for example "every 2nd of 0 9 * * mon"',
        )
    return NthExpression(
        text=expression.text,
        canonical=expression.canonical,
        notes=expression.notes,
        wildcard=expression.wildcard,
        days=expression.days,
        hours=expression.hours,
        minutes=expression.minutes,
        seconds=expression.seconds,
        step=step,
        anchor=anchor,
    )
