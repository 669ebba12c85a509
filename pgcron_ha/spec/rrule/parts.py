"""The parts of a recurrence rule: ``FREQ=MONTHLY;BYDAY=-1FR``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.spec.rrule.days import DAILY, HOURLY, MONTHLY, WEEKLY, YEARLY, RecurringTimes
from pgcron_ha.spec.zones import instant_at

EXAMPLE: Final = 'for example "rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9 from 2026-01-01T09:00"'
# All of them are found when the spec is read.
MOST_COUNTED: Final = 1000
MOST_INTERVAL: Final = 1000

FREQUENCIES: Final = (YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY)
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# In the order in which they are written out, with the numbers they take; negative ones, too, where
# RFC 5545 counts from the end.
_NUMBERS: Final = {
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}
_BY_DAYS: Final = ("BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY")
_KNOWN: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", *_NUMBERS, "BYDAY", "WKST")
_PART: Final = re.compile(r"([A-Z]+)=([A-Z0-9,+-]+)", re.ASCII)
_DAY: Final = re.compile(r"([+-]?[1-9]\d?)?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_UNTIL: Final = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)


@dataclass(frozen=True)
class Parts:
    """The parts of one rule, judged one by one and together."""

    texts: dict[str, str]
    numbers: dict[str, tuple[int, ...]]
    days: tuple[tuple[int, str], ...]
    """Ordinal (0: each) and day."""

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    @property
    def count(self) -> int | None:
        """How many wall times it has in all."""
        return int(self.texts["COUNT"]) if "COUNT" in self.texts else None

    @property
    def canonical(self) -> str:
        """The parts in one order, without what says nothing."""
        written = [f"FREQ={self.texts['FREQ']}"]
        if int(self.texts.get("INTERVAL", 1)) > 1:
            written.append(f"INTERVAL={int(self.texts['INTERVAL'])}")
        if self.count is not None:
            written.append(f"COUNT={self.count}")
        if "UNTIL" in self.texts:
            written.append(f"UNTIL={self.texts['UNTIL']}")
        for name, numbers in self.numbers.items():
            written.append(f"{name}={','.join(map(str, numbers))}")
        if self.days:
            days = (f"{ordinal or ''}{day}" for ordinal, day in self.days)
            written.append(f"BYDAY={','.join(days)}")
        if self.texts.get("WKST", "MO") != "MO":
            written.append(f"WKST={self.texts['WKST']}")
        return ";".join(written)

    def times(self, first: datetime) -> RecurringTimes:
        """What they name from ``first`` on, with what that implies."""
        frequency = self.texts["FREQ"]
        named = dict(self.numbers)
        weekdays = tuple((ordinal, DAYS.index(day)) for ordinal, day in self.days)
        if not any(name in self for name in _BY_DAYS if name != "BYMONTH"):
            if frequency == YEARLY:
                named.setdefault("BYMONTH", (first.month,))
            if frequency in (YEARLY, MONTHLY):
                named["BYMONTHDAY"] = (first.day,)
            if frequency == WEEKLY:
                weekdays = ((0, first.weekday()),)
        every_hour = tuple(range(24))
        return RecurringTimes(
            first=first,
            frequency=frequency,
            interval=int(self.texts.get("INTERVAL", 1)),
            week_begins=DAYS.index(self.texts.get("WKST", "MO")),
            months=named.get("BYMONTH", ()),
            weeks=named.get("BYWEEKNO", ()),
            year_days=named.get("BYYEARDAY", ()),
            month_days=named.get("BYMONTHDAY", ()),
            weekdays=weekdays,
            hours=named.get("BYHOUR", every_hour if frequency == HOURLY else (first.hour,)),
            minutes=named.get("BYMINUTE", (first.minute,)),
            seconds=named.get("BYSECOND", (first.second,)),
            positions=named.get("BYSETPOS", ()),
        )

    def last_instant(self, timezone: str) -> datetime:
        """UNTIL: in UTC with a Z, else wall time; a date lasts until the day is over."""
        match = _UNTIL.fullmatch(self.texts.get("UNTIL", ""))
        if match is None:
            return LATEST
        wall = datetime.strptime(match[1] + (match[2] or "235959"), "%Y%m%d%H%M%S")
        instant = wall if match[3] else instant_at(timezone, wall)
        return min(max(instant.replace(tzinfo=UTC), EARLIEST), LATEST)


def read_parts(text: str) -> Parts:
    """Read ``FREQ=…;…``, in any case; raises `InvalidSpec`."""
    texts: dict[str, str] = {}
    for part in text.upper().split(";"):
        match = _PART.fullmatch(part)
        if match is None or match[1] not in _KNOWN or match[1] in texts:
            raise _refusal(part, f"a part is one of {', '.join(_KNOWN)}, an = and its value, once")
        texts[match[1]] = match[2]
    if texts.get("FREQ") not in FREQUENCIES:
        raise _refusal(
            f"FREQ={texts.get('FREQ', '')}",
            f"FREQ is one of {', '.join(FREQUENCIES)}; shorter periods are written as intervals",
        )
    for name, most in (("INTERVAL", MOST_INTERVAL), ("COUNT", MOST_COUNTED)):
        if name in texts and not (texts[name].isdecimal() and 1 <= int(texts[name][:9]) <= most):
            raise _refusal(f"{name}={texts[name]}", f"{name} is a number from 1 to {most}")
    _judge_until(texts)
    if texts.get("WKST", "MO") not in DAYS:
        raise _refusal(f"WKST={texts['WKST']}", f"WKST is one of {', '.join(DAYS)}")
    numbers = {name: _numbers(name, texts[name]) for name in _NUMBERS if name in texts}
    parts = Parts(texts, numbers, _days(texts["BYDAY"]) if "BYDAY" in texts else ())
    _judge_together(parts)
    return parts


def _judge_until(texts: dict[str, str]) -> None:
    if "UNTIL" not in texts:
        return
    rule = "UNTIL is written 20261231, 20261231T170000 or 20261231T170000Z"
    match = _UNTIL.fullmatch(texts["UNTIL"])
    if match is None or "COUNT" in texts:
        raise _refusal(f"UNTIL={texts['UNTIL']}", f"{rule}; a rule has UNTIL or COUNT, not both")
    try:
        wall = datetime.strptime(match[1] + (match[2] or "000000"), "%Y%m%d%H%M%S")
    except ValueError:  # a 13th month, a 61st minute
        raise _refusal(f"UNTIL={texts['UNTIL']}", rule) from None
    if not EARLIEST.year <= wall.year <= LATEST.year:
        raise _refusal(f"UNTIL={texts['UNTIL']}", "instants are of the years 1900 to 9998")


def _numbers(name: str, text: str) -> tuple[int, ...]:
    low, high, from_the_end = _NUMBERS[name]
    found: set[int] = set()
    for item in text.split(","):
        sign = "[+-]?" if from_the_end else ""
        if not re.fullmatch(rf"{sign}\d{{1,3}}", item) or not low <= abs(int(item)) <= high:
            also = " (or counted from the end, with a -)" if from_the_end else ""
            raise _refusal(f"{name}={item}", f"{name} takes numbers from {low} to {high}{also}")
        found.add(int(item))
    return tuple(sorted(found))


def _days(text: str) -> tuple[tuple[int, str], ...]:
    found: set[tuple[int, str]] = set()
    for item in text.split(","):
        match = _DAY.fullmatch(item)
        if match is None or abs(int(match[1] or 0)) > 53:
            raise _refusal(f"BYDAY={item}", "BYDAY takes days such as MO, 2TU (the second), -1FR")
        found.add((int(match[1] or 0), match[2]))
    return tuple(sorted(found, key=lambda day: (day[0], DAYS.index(day[1]))))


def _judge_together(parts: Parts) -> None:
    """What RFC 5545 forbids in combination."""
    frequency = parts.texts["FREQ"]
    if any(ordinal for ordinal, _ in parts.days) and (
        frequency not in ("MONTHLY", "YEARLY") or "BYWEEKNO" in parts
    ):
        raise _refusal("BYDAY", "days are counted (2TU) in months and years, not beside BYWEEKNO")
    if any(abs(ordinal) > 5 for ordinal, _ in parts.days) and (
        frequency == "MONTHLY" or "BYMONTH" in parts
    ):
        raise _refusal("BYDAY", "no month has more than five of a weekday: -5 to 5")
    if len({ordinal == 0 for ordinal, _ in parts.days}) > 1:
        raise _refusal("BYDAY", "days with and without a number are written as two rules")
    if "BYWEEKNO" in parts and frequency != "YEARLY":
        raise _refusal("BYWEEKNO", "weeks are counted in years: FREQ=YEARLY")
    if "BYYEARDAY" in parts and frequency in ("DAILY", "WEEKLY", "MONTHLY"):
        raise _refusal("BYYEARDAY", "days of the year are for FREQ=YEARLY and HOURLY")
    if "BYMONTHDAY" in parts and frequency == "WEEKLY":
        raise _refusal("BYMONTHDAY", "a week has no days of the month: use FREQ=MONTHLY or DAILY")
    if "BYSETPOS" in parts and not any(name in parts for name in _KNOWN if _is_other(name)):
        raise _refusal("BYSETPOS", "BYSETPOS chooses among what another BY part names")


def _is_other(name: str) -> bool:
    return name.startswith("BY") and name != "BYSETPOS"


def _refusal(what: str, rule: str) -> InvalidSpec:
    return InvalidSpec(f'"{what[:60]}" is not valid in a recurrence rule', rule, EXAMPLE)
