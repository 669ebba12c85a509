"""Recurrence rules of iCalendar (RFC 5545, 3.3.10).

``rrule FREQ=…;… [from <instant>]``. The rule names wall times of the schedule's zone, counted from
its instant (DTSTART; 1970-01-01T00:00 if none is written). Unlike RFC 5545, the instant itself is
no fire unless the rule names it, and UNTIL with a date lasts until that day is over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import A_SECOND, EARLIEST, LATEST, naive_utc
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.instants import read_instant
from pgcron_ha.spec.named_days import NamedDays
from pgcron_ha.spec.recurring_times import DAILY, MONTHLY, WEEKLY, YEARLY, RecurringTimes
from pgcron_ha.spec.rules import WallRule
from pgcron_ha.spec.zones import instant_at, instants_of, skipping_change, wall_time

EXAMPLE: Final = 'for example "rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9 from 2026-01-01T09:00"'
# All of them are found when the spec is read.
MOST_COUNTED: Final = 1000
MOST_INTERVAL: Final = 1000

FREQUENCIES: Final = (YEARLY, MONTHLY, WEEKLY, DAILY)
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# In the order in which they are written out, and the numbers they take; negative ones, too, where
# RFC 5545 counts from the end.
_NUMBERS: Final = {
    "INTERVAL": (1, MOST_INTERVAL, False),
    "COUNT": (1, MOST_COUNTED, False),
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}
_ONE: Final = ("INTERVAL", "COUNT")
_LISTED: Final = [name for name in _NUMBERS if name not in _ONE]
_KNOWN: Final = ("FREQ", *_ONE, "UNTIL", *_LISTED, "BYDAY", "WKST")
_IMPLIED: Final = {"INTERVAL": "1", "WKST": "MO"}
_PART: Final = re.compile(rf"({'|'.join(_KNOWN)})=([A-Z0-9,+-]+)", re.ASCII)
_DAY: Final = re.compile(r"([+-]?[1-9]\d?)?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_UNTIL: Final = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)


@dataclass(frozen=True)
class Parts:
    """The parts of one rule, ``FREQ=MONTHLY;BYDAY=-1FR``, judged one by one and together."""

    texts: dict[str, str]
    """As they are written out: in one order, without what says nothing."""
    numbers: dict[str, tuple[int, ...]]
    days: tuple[tuple[int, int], ...]
    """Ordinal (0: each) and day, Monday is 0."""
    until: datetime | None
    """The wall time of UNTIL; a date lasts until the day is over."""

    @property
    def count(self) -> int | None:
        """How many wall times it has in all."""
        return int(self.texts["COUNT"]) if "COUNT" in self.texts else None

    def times(self, first: datetime) -> RecurringTimes:
        """What they name from ``first`` on, with what that implies."""
        frequency = self.texts["FREQ"]
        months, month_days = self.numbers["BYMONTH"], self.numbers["BYMONTHDAY"]
        weekdays = self.days
        if not weekdays and not month_days:
            if frequency == YEARLY:
                months = months or (first.month,)
            if frequency in (YEARLY, MONTHLY):
                month_days = (first.day,)
            if frequency == WEEKLY:
                weekdays = ((0, first.weekday()),)
        days = NamedDays(
            months or range(1, 13),
            month_days,
            frozenset(day for ordinal, day in weekdays if not ordinal),
            [each for each in weekdays if each[0]],
            # Of each month, or of the year if no months are named.
            is_nth_of_year=frequency == YEARLY and not months,
        )
        return RecurringTimes(
            hours=self.numbers["BYHOUR"] or (first.hour,),
            minutes=self.numbers["BYMINUTE"] or (first.minute,),
            seconds=self.numbers["BYSECOND"] or (first.second,),
            first=first,
            frequency=frequency,
            interval=int(self.texts.get("INTERVAL", 1)),
            week_begins=DAYS.index(self.texts.get("WKST", "MO")),
            days=days,
            positions=self.numbers["BYSETPOS"],
        )

    def last_instant(self, timezone: str) -> datetime:
        """UNTIL: in UTC with a Z, else wall time."""
        if self.until is None:
            return LATEST
        is_utc = self.texts["UNTIL"].endswith("Z")
        instant = self.until if is_utc else instant_at(timezone, self.until)
        return min(max(instant.replace(tzinfo=UTC), EARLIEST), LATEST)


def read_parts(text: str) -> Parts:
    """Read ``FREQ=…;…``, in any case; raises `InvalidSpec`."""
    texts: dict[str, str] = {}
    for part in text.upper().split(";"):
        match = _PART.fullmatch(part)
        if match is None or match[1] in texts:
            raise _refusal(part, f"a part is one of {', '.join(_KNOWN)}, an = and its value, once")
        texts[match[1]] = match[2]
    if texts.get("FREQ") not in FREQUENCIES:
        raise _refusal(
            f"FREQ={texts.get('FREQ', '')}",
            f"FREQ is one of {', '.join(FREQUENCIES)}; shorter periods are cron or intervals",
        )
    until = _until(texts["UNTIL"], "COUNT" in texts) if "UNTIL" in texts else None
    if texts.get("WKST", "MO") not in DAYS:
        raise _refusal(f"WKST={texts['WKST']}", f"WKST is one of {', '.join(DAYS)}")
    numbers = {name: _numbers(name, texts[name]) if name in texts else () for name in _NUMBERS}
    days = _days(texts["BYDAY"]) if "BYDAY" in texts else ()
    texts |= {name: ",".join(map(str, found)) for name, found in numbers.items() if found}
    if days:
        texts["BYDAY"] = ",".join(f"{ordinal or ''}{DAYS[day]}" for ordinal, day in days)
    said = [name for name in _KNOWN if name in texts and texts[name] != _IMPLIED.get(name)]
    parts = Parts({name: texts[name] for name in said}, numbers, days, until)
    _judge_together(parts)
    return parts


def _until(text: str, is_counted: bool) -> datetime:
    match = _UNTIL.fullmatch(text)
    try:
        if match is None or is_counted:
            raise ValueError(text)
        wall = datetime.strptime(match[1] + (match[2] or "235959"), "%Y%m%d%H%M%S")
        if not EARLIEST.year <= wall.year <= LATEST.year:
            raise ValueError(text)
    except ValueError:  # also a 13th month, a 61st minute
        raise _refusal(
            f"UNTIL={text}",
            "UNTIL is written 20261231, 20261231T170000 or 20261231T170000Z, of the years 1900 to"
            " 9998; a rule has UNTIL or COUNT, not both",
        ) from None
    return wall


def _numbers(name: str, text: str) -> tuple[int, ...]:
    low, high, from_the_end = _NUMBERS[name]
    found: set[int] = set()
    items = [text] if name in _ONE else text.split(",")
    sign = "[+-]?" if from_the_end else ""
    for item in items:
        if not re.fullmatch(rf"{sign}\d{{1,4}}", item) or not low <= abs(int(item)) <= high:
            also = " (or counted from the end, with a -)" if from_the_end else ""
            raise _refusal(f"{name}={item}", f"{name} takes numbers from {low} to {high}{also}")
        found.add(int(item))
    return tuple(sorted(found))


def _days(text: str) -> tuple[tuple[int, int], ...]:
    found: set[tuple[int, int]] = set()
    for item in text.split(","):
        match = _DAY.fullmatch(item)
        if match is None or abs(int(match[1] or 0)) > 53:
            raise _refusal(f"BYDAY={item}", "BYDAY takes days such as MO, 2TU (the second), -1FR")
        found.add((int(match[1] or 0), DAYS.index(match[2])))
    return tuple(sorted(found))


def _judge_together(parts: Parts) -> None:
    """What RFC 5545 forbids in combination."""
    frequency, ordinals = parts.texts["FREQ"], {ordinal for ordinal, _ in parts.days}
    if any(ordinals) and frequency not in (MONTHLY, YEARLY):
        raise _refusal("BYDAY", "days are counted (2TU) in months and years")
    in_months = frequency == MONTHLY or parts.numbers["BYMONTH"]
    if in_months and max(map(abs, ordinals), default=0) > 5:
        raise _refusal("BYDAY", "no month has more than five of a weekday: -5 to 5")
    if any(ordinals) and 0 in ordinals:
        raise _refusal("BYDAY", "days with and without a number are written as two rules")
    if parts.numbers["BYMONTHDAY"] and frequency == WEEKLY:
        raise _refusal("BYMONTHDAY", "a week has no days of the month: use FREQ=MONTHLY or DAILY")
    if {name for name in parts.texts if name.startswith("BY")} == {"BYSETPOS"}:
        raise _refusal("BYSETPOS", "BYSETPOS chooses among what another BY part names")


def _refusal(what: str, rule: str) -> InvalidSpec:
    return InvalidSpec(f'"{what[:60]}" is not valid in a recurrence rule', rule, EXAMPLE)


# A rule that doesn't fire so soon after its instant is refused. Later it may pause for longer, if
# its interval is long.
FIRST_WITHIN = timedelta(days=64 * 366)
START = "1970-01-01T00:00:00"

_END = naive_utc(LATEST)


def read_recurrence(
    written: str, begin_text: str | None, timezone: str, dst: DstPolicy
) -> WallRule:
    """Read the texts of an ``rrule`` line; raises `InvalidSpec`, also for what does not fire within
    `FIRST_WITHIN`.
    """
    parts = read_parts(written)
    instant = read_instant(begin_text or START, timezone, EXAMPLE).instant
    if "COUNT" in parts.texts and begin_text is None:
        raise InvalidSpec(
            "COUNT without an instant to count from",
            "what is counted begins with the instant of the rule",
            'for example "rrule FREQ=DAILY;COUNT=5 from 2026-12-01T09:00"',
        )
    first = wall_time(timezone, instant)
    begin = "" if begin_text is None else f" from {first:%Y-%m-%dT%H:%M:%S}"
    canonical = ";".join(f"{name}={text}" for name, text in parts.texts.items())
    times, last = parts.times(first), parts.last_instant(timezone)
    found = WallRule(f"rrule {canonical}{begin}", times, timezone, dst, last)
    since = instant - A_SECOND if parts.count is None else EARLIEST
    soon = min(instant, LATEST - FIRST_WITHIN) + FIRST_WITHIN
    fires = times.may_fire and found.next(since, soon) is not None
    if fires and parts.count is not None:
        counted = tuple(islice(times.walls(first, _END), parts.count))
        # The last of all passes of the last wall time, whatever the policy.
        passes = instants_of(timezone, counted[-1]) or (skipping_change(timezone, counted[-1]).at,)
        last = passes[-1].replace(tzinfo=UTC)
        found = replace(found, times=replace(times, counted=counted), last=last)
        fires = found.next(since, LATEST) is not None
    if fires:
        return found
    raise InvalidSpec(
        f'"rrule {written[:80]}" never fires',
        f"no instant of its first {FIRST_WITHIN.days // 366} years has all that its parts name",
        EXAMPLE,
    )
