"""Which days a cron expression names. Which number is which weekday is croniter's answer."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from croniter import croniter

from pgcron_ha.spec.cron.fields import CronField
from pgcron_ha.spec.named_days import NamedDays


def cron_days(day: CronField, month: CronField, weekday: CronField) -> NamedDays:
    """The days that the three fields name together.

    When one of the two day fields begins with ``*`` both must match, else either (cron's rule).
    """
    workdays = [mark[:-1] for mark in day.marks if mark.endswith("W")]
    counted = [mark for mark in day.marks if not mark.endswith("W")]
    return NamedDays(
        month.values,
        () if day.everything else (*day.values, *(-1 - int(mark[2:] or 0) for mark in counted)),
        () if weekday.everything else tuple(map(from_monday, weekday.values)),
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
