"""A recurrence rule in English: ``each month on the last Friday at 09:00``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.spec.cron.words import time_words
from pgcron_ha.spec.rrule.rule import DAYS, FREQUENCIES, Parts, RecurrenceRule, read_parts
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
    words += _days(rule, parts, unit)
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


def _days(rule: RecurrenceRule, parts: Parts, unit: str) -> list[str]:
    times = rule.times
    words: list[str] = []
    if "BYWEEKNO" in parts:
        weeks = _from_end(parts.numbers["BYWEEKNO"], "week")
        words.append(f"in {weeks} of the year")
    if "BYYEARDAY" in parts:
        words.append(f"on {_from_end(parts.numbers['BYYEARDAY'], 'day')} of the year")
    if times.month_days:
        texts = days_of_month(times.month_days)
        words.append(f"on {listed(texts)}{'' if unit == 'month' else ' of the month'}")
    if parts.days:
        words.append(f"on {_weekdays(parts, unit)}")
    elif times.weekdays:
        words.append(f"on {_weekday(DAYS[times.weekdays[0][1]])}")
    if times.months:
        words.append(f"in {ranged([month - 1 for month in times.months], MONTHS)}")
    return words


def _weekdays(parts: Parts, unit: str) -> str:
    if not parts.days[0][0]:
        numbers = [DAYS.index(day) + 1 for _, day in parts.days]
        return ranged(numbers, (*WEEKDAYS, WEEKDAYS[0]))
    of = " of the month" if unit == "year" and "BYMONTH" in parts else ""
    of = " of the year" if unit == "year" and not of else of
    texts = [f"{counted(nth)} {_weekday(day)}" for nth, day in parts.days]
    return listed(texts) + of


def _weekday(day: str) -> str:
    return (*WEEKDAYS[1:], WEEKDAYS[0])[DAYS.index(day)]


def _from_end(numbers: tuple[int, ...], unit: str) -> str:
    return listed(
        [f"{unit} {number}" if number > 0 else f"{counted(number)} {unit}" for number in numbers]
    )
