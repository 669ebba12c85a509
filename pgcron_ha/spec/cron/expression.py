"""A cron expression: text in, a value that knows the wall times it names.

Nothing here knows a time zone; wall times are naive datetimes. Which number is which weekday is
croniter's answer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from functools import cached_property, lru_cache

from croniter import croniter

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import A_SECOND
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.fields import RULES, SECOND, CronField, parse_field
from pgcron_ha.spec.named_days import NamedDays
from pgcron_ha.spec.text import ordinal
from pgcron_ha.spec.year_days import bit, first_of

CACHED_EXPRESSIONS = 4096

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_ONLY_AT_ZERO = parse_field(SECOND, "0")
_EXAMPLE = 'for example "0 9 * * mon-fri": minute, hour, day, month, weekday'


@dataclass(frozen=True)
class WallTimes(ABC):
    """Wall times that a line names: on its days each hour with each minute and second."""

    hours: tuple[int, ...] = field(compare=False, repr=False)
    minutes: tuple[int, ...] = field(compare=False, repr=False)
    seconds: tuple[int, ...] = field(compare=False, repr=False)
    wildcard: bool = field(default=False, compare=False, kw_only=True)
    """Whether they follow the wall clock, whatever the policy."""
    notes: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    """Sentences for its author."""

    @abstractmethod
    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first of them later than ``wall`` (all naive), or None; any later than ``until`` may
        be None.
        """

    @property
    def times_a_day(self) -> int:
        """How many there are."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def times_up_to(self, wall: datetime) -> int:
        """How many there are up to and including this one."""
        hours = bisect_right(self.hours, wall.hour - 1)
        minutes = bisect_right(self.minutes, wall.minute - 1)
        count = hours * len(self.minutes) * len(self.seconds)
        if wall.hour in self.hours:
            count += minutes * len(self.seconds)
            if wall.minute in self.minutes:
                count += bisect_right(self.seconds, wall.second)
        return count

    def at(self, day: date, place: int) -> datetime:
        """The time of a day with ``place`` earlier times on that day."""
        place, second = divmod(place, len(self.seconds))
        hour, minute = divmod(place, len(self.minutes))
        clock = self.hours[hour], self.minutes[minute], self.seconds[second]
        return datetime(day.year, day.month, day.day, *clock)


@dataclass(frozen=True)
class CronExpression(WallTimes):
    """A valid cron expression; equal when the canonical texts are.

    ``canonical`` reads back to the same expression, whatever the spelling was. It is ``wildcard``
    if a time field begins with ``*`` (cron's class of jobs that follow the wall clock).
    """

    canonical: str
    days: NamedDays = field(compare=False, repr=False)

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first named wall time later than ``wall``, or None: none on a day up to ``until``."""
        if self.days.has(wall.date()):
            passed = self.times_up_to(wall)
            if passed < self.times_a_day:
                return self.at(wall.date(), passed)
        later = self.days.after(wall.date())
        return None if later is None or later > until.date() else self.at(later, 0)

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many wall times it names in (after, until], both naive; less than none if ``until``
        is the earlier one.
        """
        return self._count_up_to(until) - self._count_up_to(after)

    def _count_up_to(self, wall: datetime) -> int:
        """How many wall times up to this one it names, since the beginning of `FIRST_YEAR`."""
        day = wall.date()
        today = self.times_up_to(wall) if self.days.has(day) else 0
        return self.days.count_before(day) * self.times_a_day + today


@lru_cache(maxsize=CACHED_EXPRESSIONS)
def parse_cron(text: str) -> CronExpression:
    """Read a cron expression of 5 fields, 6 fields (seconds first) or a macro.

    Raises `InvalidSpec` with the field and the token, also for an expression that never fires. The
    result is cached and may be shared between threads.
    """
    written = _split(text)
    _judge_weekdays(written)
    fields = list(map(parse_field, RULES[-len(written) :], written))
    with_seconds = fields if len(fields) == len(RULES) else [_ONLY_AT_ZERO, *fields]
    second, minute, hour, day, month, weekday = with_seconds
    written_out = with_seconds[1:] if second == _ONLY_AT_ZERO else with_seconds
    days = _days(day, month, weekday)
    if not days.ever():
        raise InvalidSpec(
            f'"{text.strip()}" never fires',
            f'no year has day "{written[-3]}" in month "{written[-2]}" on weekday "{written[-1]}"',
            'for example "0 9 L * *" for the last day of every month',
        )
    return CronExpression(
        canonical=" ".join(one.canonical for one in written_out),
        notes=_notes(day, weekday, written),
        wildcard=second.starred or minute.starred or hour.starred,
        days=days,
        hours=hour.values,
        minutes=minute.values,
        seconds=second.values,
    )


def _days(day: CronField, month: CronField, weekday: CronField) -> NamedDays:
    """The days that the three fields name together.

    When one of the two day fields begins with ``*`` both must match, else either (cron's rule).
    """
    workdays = [mark[:-1] for mark in day.marks if mark.endswith("W")]
    counted = [mark for mark in day.marks if not mark.endswith("W")]
    return NamedDays(
        month.values,
        () if day.everything else (*day.values, *(-1 - int(mark[2:] or 0) for mark in counted)),
        frozenset(() if weekday.everything else map(from_monday, weekday.values)),
        tuple(map(_nth_weekday, weekday.marks)),
        workdays=tuple(-1 if day == "L" else int(day) for day in workdays),
        needs_both=day.starred or weekday.starred,
    )


@lru_cache(maxsize=7)
def from_monday(weekday: int) -> int:
    """Cron's number of a weekday, Sunday is 0, as `datetime` counts, Monday is 0."""
    following: datetime = croniter(f"0 0 * * {weekday}", datetime(2001, 1, 1)).get_next(datetime)
    return following.weekday()


def _nth_weekday(mark: str) -> tuple[int, int]:
    """The ordinal and the weekday of ``5#2`` and ``L5``."""
    weekday, _, nth = mark.removeprefix("L").partition("#")
    return int(nth or -1), from_monday(int(weekday))


def _split(text: str) -> list[str]:
    if not text.isascii():
        strange = next(character for character in text if not character.isascii())
        raise InvalidSpec(
            f'the cron expression contains "{strange}"', "cron text is plain ASCII", _EXAMPLE
        )
    stripped = text.strip(" \t")
    if stripped.startswith("@"):
        macro = MACROS.get(stripped.lower())
        if macro is None:
            near = get_close_matches(stripped.lower(), MACROS, n=1)
            raise InvalidSpec(
                f'"{stripped[:60]}" is not a known macro',
                f"the macros are {', '.join(MACROS)}",
                f'did you mean "{near[0]}"?' if near else 'for an interval write "every 90m"',
            )
        return macro.split()
    parts = [part for part in re.split(r"[ \t]+", stripped) if part]
    if len(parts) not in (5, 6):
        raise InvalidSpec(
            f'the cron expression "{stripped[:60]}" has {len(parts)} fields',
            "it has 5 fields, or 6 with seconds first; there is no year field",
            _EXAMPLE,
        )
    return parts


def _judge_weekdays(written: list[str]) -> None:
    """Quartz, of which ? is, counts days of the week otherwise than cron does."""
    if "?" in written and re.search(r"\d", re.sub(r"[#/]\d+", "", written[-1])):
        raise InvalidSpec(
            f'"{written[-1]}" beside ? could be read in two ways',
            "numbers of weekdays are cron's here (0 is Sunday); Quartz, which writes ?, begins"
            " with 1 for Sunday",
            'write the days by name, for example "0 9 ? * mon-fri"',
        )


def _notes(day: CronField, weekday: CronField, written: list[str]) -> tuple[str, ...]:
    if day.everything or weekday.everything:
        return ()
    if day.starred or weekday.starred:
        return (
            f'day "{written[-3]}" and weekday "{written[-1]}" must both match, because one of '
            "them begins with *; Kubernetes reads this as either",
        )
    return (f'a day matches when day "{written[-3]}" or weekday "{written[-1]}" does',)


SMALLEST_STEP, LARGEST_STEP = 2, 10_000
START = datetime(1970, 1, 1)
"""The wall time that is counted from when none is written."""


@dataclass(frozen=True)
class NthExpression(CronExpression):
    """``every 2nd of 0 9 * * mon``: of the wall times that an expression names only each nth.

    They are counted from a wall time, the first at or after it being one that fires, before it and
    after it: nothing is remembered, so that no outage, restart or edit of other lines shifts them.
    What is left out by other lines is counted all the same: a holiday doesn't turn odd weeks into
    even.
    """

    step: int
    anchor: datetime

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first named wall time later than ``wall``, or None: none on a day up to ``until``."""
        left_out = -self._number(wall) % self.step
        day: date | None = wall.date()
        if self.days.has(wall.date()):
            left_out += self.times_up_to(wall)
        else:
            day = self.days.after(wall.date())
        days, place = divmod(left_out, self.times_a_day)
        while day is not None and day <= until.date():
            left = self.days.in_year(day.year) & -bit(day)
            if days < left.bit_count():
                spend(days // 8)
                for _ in range(days):
                    left &= left - 1  # without the first of them
                day = first_of(left, day.year)
                return None if day > until.date() else self.at(day, place)
            spend()
            days -= left.bit_count()
            day = self.days.after(date(day.year, 12, 31))
        return None

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many of these it names in (after, until]."""
        first, end = self._number(after), self._number(until)
        return -(-end // self.step) - -(-first // self.step)

    def _number(self, wall: datetime) -> int:
        """How many of the expression lie in [anchor, wall]; before the anchor, less than none."""
        return self._count_up_to(wall) - self._before_anchor

    @cached_property
    def _before_anchor(self) -> int:
        return self._count_up_to(self.anchor - A_SECOND)


def nth_of(expression: CronExpression, step: int, anchor: datetime) -> NthExpression:
    """Each ``step``-th of the expression's wall times; raises `InvalidSpec` for another step."""
    if not SMALLEST_STEP <= step <= LARGEST_STEP:
        raise InvalidSpec(
            f"every {ordinal(step)} is out of range",
            f"it is every {ordinal(SMALLEST_STEP)} to every {ordinal(LARGEST_STEP)}",
            'for example "every 2nd of 0 9 * * mon"',
        )
    return NthExpression(**vars(expression), step=step, anchor=anchor)
