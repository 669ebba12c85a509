"""A recurrence rule in English: ``each month on the last Friday at 09:00``."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pgcron_ha.model.cron_words import time_words
from pgcron_ha.model.recurrence import RecurrenceRule
from pgcron_ha.model.recurrence_parts import DAYS, Parts, read_parts
from pgcron_ha.model.word_lists import (
    MONTHS,
    WEEKDAYS,
    counted,
    listed,
    moment,
    ordinal,
    ranged,
)

_UNITS: Final = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
}


def recurrence_words(rule: RecurrenceRule) -> str:
    """When it fires, without the zone; begins in lower case."""
    parts = read_parts(rule.canonical.split()[1])
    unit = _UNITS[parts.texts["FREQ"]]
    interval = rule.arguments["interval"]
    words = [f"every {interval} {unit}s" if interval > 1 else f"each {unit}"]
    if interval > 1:
        words[0] += f" (counted from {rule.first:%Y-%m-%d})"
    words += _days(rule, parts, unit)
    words.append(_times(rule))
    if "BYSETPOS" in parts:
        chosen = listed([counted(place) for place in parts.numbers["BYSETPOS"]])
        words.append(f"(of these only {chosen} of the {unit})")
    text = " ".join(word for word in words if word)
    if parts.count is not None:
        text += f", {parts.count} time{'s' if parts.count > 1 else ''} from {moment(rule.first)} on"
    if "UNTIL" in parts:
        text += f", until {_until(parts.texts['UNTIL'])}"
    return text


def _days(rule: RecurrenceRule, parts: Parts, unit: str) -> list[str]:
    taken = rule.arguments
    words: list[str] = []
    if "BYWEEKNO" in parts:
        weeks = _from_end(parts.numbers["BYWEEKNO"], "week")
        words.append(f"in {weeks} of the year")
    if "BYYEARDAY" in parts:
        words.append(f"on {_from_end(parts.numbers['BYYEARDAY'], 'day')} of the year")
    month_days = taken.get("bymonthday")
    if month_days is not None:
        days = (month_days,) if isinstance(month_days, int) else month_days
        texts = [
            f"the {ordinal(day)}" if day > 0 else f"{counted(day)} day"
            for day in sorted(days, key=lambda day: (day < 0, day))
        ]
        words.append(f"on {listed(texts)}{'' if unit == 'month' else ' of the month'}")
    if parts.days:
        words.append(f"on {_weekdays(parts, unit)}")
    elif "byweekday" in taken:
        words.append(f"on {_weekday(DAYS[taken['byweekday']])}")
    months = taken.get("bymonth")
    if months is not None:
        named = (months,) if isinstance(months, int) else months
        words.append(f"in {ranged([month - 1 for month in named], MONTHS)}")
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


def _times(rule: RecurrenceRule) -> str:
    hours = rule.arguments.get("byhour")
    minutes, seconds = rule.arguments["byminute"], rule.arguments["bysecond"]
    if hours is not None:
        return time_words(tuple(hours), tuple(minutes), tuple(seconds))
    at = f"at minute{'s' if len(minutes) > 1 else ''} {ranged(minutes)}"
    if tuple(seconds) != (0,):
        at += f", second{'s' if len(seconds) > 1 else ''} {ranged(seconds)}"
    return at


def _until(text: str) -> str:
    if "T" not in text:
        return f"the end of {datetime.strptime(text, '%Y%m%d'):%Y-%m-%d}"
    wall = datetime.strptime(text.rstrip("Z"), "%Y%m%dT%H%M%S")
    return f"{moment(wall)}{' UTC' if text.endswith('Z') else ''}"
