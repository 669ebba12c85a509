"""Times and days in English: ``at 03:00 on Monday to Friday``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import time
from itertools import product
from typing import Final

from pgcron_ha.spec.cron.expression import CronExpression
from pgcron_ha.spec.named_days import NamedDays
from pgcron_ha.spec.text import (
    MONTHS,
    WEEKDAYS,
    clock,
    counted,
    in_number,
    listed,
    ordinal,
    ranged,
    ranges,
    step_of,
    stretches_of,
)

# Up to this many times of a day are written out.
MOST_TIMES: Final = 6


def cron_words(expression: CronExpression, every_day: str = "every day") -> str:
    """When it fires, without the zone; begins in lower case."""
    times = time_words(expression.hours, expression.minutes, expression.seconds)
    days = day_words(expression.days)
    if not days.startswith("on ") and times.startswith("at ") and len(expression.hours) < 24:
        days = f"{every_day} {days}".rstrip()
    return f"{times} {days}".rstrip()


def covered_words(expression: CronExpression) -> str:
    """What it covers as an exclusion, by seconds: ``on Saturday and Sunday``, ``from 12:00 to
    12:59``.
    """
    days = day_words(expression.days)
    if len(expression.seconds) < 60:
        return cron_words(expression, "on any day")
    if len(expression.minutes) == 60 and len(expression.hours) == 24:
        return days or "at any time"
    if len(expression.minutes) == 60:
        return f"{_hours(expression.hours)} {days or 'on any day'}"
    words = cron_words(replace(expression, seconds=(0,)), "on any day")
    return words if words.startswith("at ") else f"in the minutes that are {words}"


def day_words(days: NamedDays) -> str:
    """``on Monday to Friday in May``; an empty text for every day."""
    texts = [text for text in (_days(days), _weekdays(days)) if text]
    both = " if that is " if days.needs_both else " or on "
    words = f"on {both.join(texts)}" if texts else ""
    if len(days.months) == 12:
        return words
    months = ranged([month - 1 for month in days.months], MONTHS)
    if len(days.months) == 1 and len(texts) == 1 and words.endswith(" of the month"):
        return f"{words.removesuffix('the month')}{months}"
    return f"{words} in {months}".lstrip()


def time_words(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    """The times of a day: ``at 03:00 and 15:00``, ``every 10 minutes``."""
    if len(hours) * len(minutes) * len(seconds) <= MOST_TIMES:
        return f"at {listed([clock(time(*each)) for each in product(hours, minutes, seconds)])}"
    if len(seconds) == 1 and seconds[0] == 0:
        only = minutes[0] if len(minutes) == 1 else None
        return _in_hours(_every("minute", minutes), hours, only)
    if len(minutes) == 60:
        every = _every("second", seconds)
        every += "" if every.startswith("every") else " of every minute"
        return every if len(hours) == 24 else _in_hours(every, hours, None)
    every = f"{_every('second', seconds)} of {_named('minute', minutes)}"
    return f"{every} of every hour" if len(hours) == 24 else _in_hours(every, hours, None)


def _every(unit: str, numbers: Sequence[int]) -> str:
    """``every minute``, ``every 10 minutes``, ``at minutes 3, 17 and 40``."""
    if len(numbers) == 60:
        return f"every {unit}"
    step = 30 if tuple(numbers) == (0, 30) else step_of(numbers, 0, 60)
    if step is None:
        return f"at {_named(unit, numbers)}"
    whole = f"every {step} {unit}s"
    return whole if 60 % step == 0 else f"{whole} (0, {step}, … {numbers[-1]})"


def _named(unit: str, numbers: Sequence[int]) -> str:
    return f"{unit}{'s' if len(numbers) > 1 else ''} {ranged(numbers)}"


def _in_hours(times: str, hours: Sequence[int], minute: int | None) -> str:
    """``minute`` is the only one of each hour, if there is one."""
    step = step_of(hours, 0, 24)
    if len(hours) == 24:
        if minute is None and times.startswith("every"):
            return times
        return "every hour on the hour" if minute == 0 else f"{times} of every hour"
    if step is not None and 24 % step == 0:
        if minute is not None:
            return f"every {step} hours from 00:{minute:02} on"
        return f"{times} in every {ordinal(step)} hour from 00:00 on"
    if minute is not None:
        return f"{times} of the hours {ranged(hours)}"
    return f"{times} {_hours(hours)}"


def _hours(hours: Sequence[int]) -> str:
    """``from 09:00 to 17:59 and from 20:00 to 20:59``."""
    return listed([f"from {low:02}:00 to {high:02}:59" for low, high in stretches_of(hours)])


def _days(days: NamedDays) -> str:
    if not days.month_days and not days.workdays:
        return ""
    step = step_of(days.month_days, 1, 32)
    if step is not None and not days.workdays:
        return f"every {ordinal(step)} day of the month (1, {1 + step}, … {days.month_days[-1]})"
    plain = sorted(day for day in days.month_days if day > 0)
    texts = [f"the {part}" for part in ranges(plain, [ordinal(number) for number in range(32)])]
    for before in (-1 - day for day in days.month_days if day < 0):
        number = f"{before} {in_number(before, 'day')}"
        texts.append(f"the day {number} before the last" if before else "the last day")
    for day in days.workdays:
        near = f" nearest to the {ordinal(day)}" if day != -1 else ""
        texts.append(f"the {'' if near else 'last '}working day (Monday to Friday){near}")
    return f"{listed(texts)} of the month"


def _weekdays(days: NamedDays) -> str:
    texts = [ranged(sorted(days.weekdays), WEEKDAYS)] if days.weekdays else []
    of = "year" if days.is_nth_of_year else "month"
    texts += [f"{counted(nth)} {WEEKDAYS[day]} of the {of}" for nth, day in days.nth_weekdays]
    return listed(texts)
