"""A recurrence rule in English: ``each month on the last Friday at 09:00``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.spec.cron.words import time_words
from pgcron_ha.spec.named_days import NamedDays
from pgcron_ha.spec.rrule.rule import FREQUENCIES, RecurrenceRule, read_parts
from pgcron_ha.spec.text import MONTHS, WEEKDAYS, counted, days_of_month, listed, moment, ranged

_UNITS: Final = dict(zip(FREQUENCIES, ("year", "month", "week", "day"), strict=True))


def recurrence_words(rule: RecurrenceRule) -> str:
    """When it fires, without the zone; begins in lower case."""
    parts = read_parts(rule.canonical.split()[1])
    unit = _UNITS[parts.texts["FREQ"]]
    interval = rule.times.interval
    words = [f"every {interval} {unit}s" if interval > 1 else f"each {unit}"]
    if interval > 1:
        words[0] += f" (counted from {rule.times.first:%Y-%m-%d})"
    words += _days(rule.times.days, unit)
    words.append(time_words(rule.times.hours, rule.times.minutes, rule.times.seconds))
    if "BYSETPOS" in parts:
        chosen = listed([counted(place) for place in parts.numbers["BYSETPOS"]])
        words.append(f"(of these only {chosen} of the {unit})")
    text = " ".join(word for word in words if word)
    if parts.count is not None:
        times = f"{parts.count} time{'s' if parts.count > 1 else ''}"
        text += f", {times} from {moment(rule.times.first)} on"
    if parts.until is not None:
        written = parts.texts["UNTIL"]
        day_or_time = moment(parts.until) if "T" in written else f"the end of {parts.until.date()}"
        text += f", until {day_or_time}{' UTC' if written.endswith('Z') else ''}"
    return text


def _days(days: NamedDays, unit: str) -> list[str]:
    words: list[str] = []
    if days.month_days:
        of = "" if unit == "month" else " of the month"
        words.append(f"on {listed(days_of_month(days.month_days))}{of}")
    if days.weekdays:
        words.append(f"on {ranged(sorted(days.weekdays), WEEKDAYS)}")
    if days.nth_weekdays:
        of = "" if unit == "month" else f" of the {'year' if days.is_nth_of_year else 'month'}"
        nths = [f"{counted(nth)} {WEEKDAYS[day]}" for nth, day in days.nth_weekdays]
        words.append(f"on {listed(nths)}{of}")
    if len(days.months) < 12:
        words.append(f"in {ranged([month - 1 for month in days.months], MONTHS)}")
    return words
