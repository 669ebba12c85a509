"""A slow, literal reading of the fire-time rules, to hold the product against.

It shares no code and no library with the product. Fields are read item by item at every question;
the clock is walked instant by instant through a change, and what the zone's clock shows is asked of
`zoneinfo` at each step. Text is expected to be valid.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

THREE_HOURS = timedelta(hours=3)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Job:
    """The six fields of an expression, as text."""

    second: str
    minute: str
    hour: str
    day: str
    month: str
    weekday: str

    @property
    def wildcard(self) -> bool:
        return "*" in (self.second[0], self.minute[0], self.hour[0])

    @property
    def by_the_second(self) -> bool:
        return self.second != "0"


def job(text: str) -> Job:
    fields = text.lower().replace("?", "*").split()
    return Job(*(["0"] if len(fields) == 5 else []), *fields)


@cache
def plain(text: str, low: int, high: int, names: tuple[str, ...] = (), base: int = 0) -> set[int]:
    """The numbers that the plain items of a field name."""
    named: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        first, dash, last = body.partition("-")
        if first in names:
            first = str(names.index(first) + base)
        if last in names:
            last = str(names.index(last) + base)
        if first == "*":
            start, end = low, high
        elif not first.isdigit() or (dash and not last.isdigit()):
            continue  # a mark: L, 15W, 5#2 …
        else:
            start = int(first)
            end = int(last) if dash else high if step else start
            if base == 0 and names and dash and end == 0 and start > 0:
                end = 7
            end = max(end, start) if not dash else end
        value = start
        while value <= end:
            named.add(value)
            value += int(step or 1)
    return named


def day_field_matches(text: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if day.day in plain(text, 1, 31):
        return True
    for item in text.split(","):
        if item == "l" and day.day == length:
            return True
        if item.startswith("l-") and day.day == length - int(item[2:]):
            return True
        if item == "lw" and day == nearest_weekday(date(day.year, day.month, length)):
            return True
        if item.endswith("w") and item != "lw":
            wanted = int(item[:-1])
            if wanted <= length and day == nearest_weekday(day.replace(day=wanted)):
                return True
    return False


def nearest_weekday(day: date) -> date:
    """The nearest Monday to Friday in the same month; the Friday before a Saturday wins."""
    for distance in (0, -1, 1, -2, 2):
        candidate = day + timedelta(days=distance)
        if candidate.month == day.month and candidate.isoweekday() <= 5:
            return candidate
    raise AssertionError(day)


def weekday_field_matches(text: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    number = day.isoweekday() % 7
    if number in {value % 7 for value in plain(text, 0, 6, WEEKDAYS)}:
        return True
    for item in text.split(","):
        if "#" in item:
            weekday, nth = item.split("#")
            if number == weekday_number(weekday) and (day.day + 6) // 7 == int(nth):
                return True
        elif item.startswith("l") or item.endswith("l"):
            weekday = item.strip("l")
            if number == weekday_number(weekday) and day.day > length - 7:
                return True
    return False


def weekday_number(text: str) -> int:
    return (int(text) if text.isdigit() else WEEKDAYS.index(text)) % 7


@cache
def date_matches(spec: Job, day: date) -> bool:
    if day.month not in plain(spec.month, 1, 12, MONTHS, 1):
        return False
    by_day = day_field_matches(spec.day, day)
    by_weekday = weekday_field_matches(spec.weekday, day)
    if spec.day[0] == "*" or spec.weekday[0] == "*":
        return by_day and by_weekday
    return by_day or by_weekday


def matches(spec: Job, wall: datetime) -> bool:
    return (
        wall.minute in plain(spec.minute, 0, 59)
        and wall.hour in plain(spec.hour, 0, 23)
        and wall.second in plain(spec.second, 0, 59)
        and date_matches(spec, wall.date())
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One instant of a walk, what the clock shows, and what the clock did just before.

    ``repeats`` is the size of the overlap when this wall time was shown before, else zero;
    ``skipped`` are the wall times that the clock has just jumped over.
    """

    instant: datetime
    wall: datetime
    repeats: timedelta
    skipped: tuple[datetime, ...]


NOTHING = timedelta(0)


def walk(zone: ZoneInfo, start: datetime, end: datetime, stride: timedelta) -> list[Step]:
    """The steps from ``start`` up to ``end``, both included.

    The walk begins far enough before a change to have shown the wall times that it repeats.
    """
    steps: list[Step] = []
    instant = start
    before = latest = start.astimezone(zone).replace(tzinfo=None) - stride
    overlap = NOTHING
    while instant <= end:
        wall = instant.astimezone(zone).replace(tzinfo=None)
        jump = wall - before - stride
        overlap = -jump if jump < NOTHING else overlap
        skipped = tuple(before + stride * n for n in range(1, jump // stride + 1))
        steps.append(Step(instant, wall, overlap if wall <= latest else NOTHING, skipped))
        latest = max(latest, wall)
        before = wall
        instant += stride
    return steps


def fires_of_walk(spec: Job, steps: list[Step]) -> dict[str, list[datetime]]:
    """The instants of a walk at which the job fires, under each policy."""
    fires: dict[str, list[datetime]] = {"vixie": [], "robfig": [], "skip": []}
    for step in steps:
        shown = matches(spec, step.wall)
        if shown:
            fires["robfig"].append(step.instant)
        if spec.wildcard:
            if shown:
                fires["vixie"].append(step.instant)
                fires["skip"].append(step.instant)
            continue
        if shown and not step.repeats:
            fires["skip"].append(step.instant)
        late = step.skipped and len(step.skipped) * (steps[1].instant - steps[0].instant)
        missed = late and late <= THREE_HOURS and any(matches(spec, w) for w in step.skipped)
        if missed or (shown and (not step.repeats or step.repeats > THREE_HOURS)):
            fires["vixie"].append(step.instant)
    return fires


@dataclass(frozen=True)
class ClockChange:
    """One change of a zone's clock, found by walking."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta

    @property
    def repeated(self) -> timedelta:
        return max(self.before - self.after, timedelta(0))


@cache
def all_changes(first_year: int, last_year: int) -> tuple[ClockChange, ...]:
    """Every change of every IANA zone; zones that change alike at one instant stand once."""
    found: dict[tuple[datetime, timedelta, timedelta], ClockChange] = {}
    contents: set[bytes] = set()
    files = resources.files("tzdata")
    for name in sorted(files.joinpath("zones").read_text().split()):
        content = files.joinpath("zoneinfo", *name.split("/")).read_bytes()
        if content not in contents:
            contents.add(content)
            for change in changes(name, first_year, last_year):
                found.setdefault((change.at, change.before, change.after), change)
    return tuple(found.values())


def changes(name: str, first_year: int, last_year: int) -> Iterator[ClockChange]:
    """A zone's changes; no zone has two within two days, so that stride finds each."""
    zone = tzdata_zone(name)
    instant, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    offset = offset_at(zone, instant)
    while instant < end:
        later = instant + timedelta(days=2)
        after = offset_at(zone, later)
        if after != offset:
            at = instant
            for stride in (timedelta(hours=1), timedelta(minutes=1)):
                while offset_at(zone, at + stride) == offset:
                    at += stride
            yield ClockChange(name, at + timedelta(minutes=1), offset, after)
        instant, offset = later, after


@cache
def tzdata_zone(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset
