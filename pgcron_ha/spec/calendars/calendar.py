"""A calendar: days that several schedules share, such as holidays; one text, a rule in each line.

A line is one of these, and may end with a note, ``# Christmas Day``:

- a date or a range, ``2026-12-24..2027-01-01``;
- dates of each year, ``yearly 12-25``, ``yearly 12-24..01-06`` (over New Year);
- a weekday of a month of each year, ``yearly 11-thu#4``, ``yearly 05-mon#L`` (the last);
- days counted from western Easter Sunday, ``yearly easter+1``, ``yearly easter-2..easter+1``;
- days of the week, ``sat,sun`` or ``mon-fri``;
- ``calendar other-name``: all days of another calendar;
- ``not`` and any of these: no day of the calendar, whatever the other lines say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, lru_cache, partial

from pgcron_ha.errors import InvalidCalendar, InvalidSpec
from pgcron_ha.spec import year_days
from pgcron_ha.spec.bounds import A_DAY
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.instants import read_date

# Each schedule that uses a calendar carries it.
MOST_CHARACTERS = 65_536
MOST_CHARACTERS_OF_LINE = 512
# A year of this many lines takes as long to compute as one step of a search.
LINES_A_STEP = 8
# All calendars of one schedule together.
MOST_LINES_IN_ALL = 10_000
# A range is kept year by year.
MOST_DAYS_OF_RANGE = 3660
# Calendars in calendars: those of one schedule, all together.
MOST_CALENDARS = 64
# A February 29 is at most 8 years away.
YEARS_SHOWN = 12
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)

Calendars = tuple[tuple[str, str], ...]
"""Names and contents of the calendars that a spec needs, by name; hashable, to be cached by."""

_EXAMPLE = 'for example "2026-12-24..2027-01-01 # closed", "yearly 12-25" or "sat,sun"'
_NOTE = re.compile(r"(?:^|[ \t])#")
_PART = re.compile(rf"(?i:calendar) ({NAME.pattern})", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# The bounds keep it in its year: Easter Sunday is between March 22 and April 25.
_EASTER_BOUNDS = (-80, 250)


@dataclass(frozen=True)
class CalendarLine:
    """One line that is not blank."""

    rule: year_days.DaysOfYear | None
    part: str | None
    """The calendar that it names, instead of a rule."""
    takes_away: bool
    note: str
    text: str


class Calendar:
    """Days of the calendar, with the notes of their lines. Safe to share between threads."""

    def __init__(self, lines: tuple[CalendarLine, ...], parts: Mapping[str, Calendar]) -> None:
        """`parts` has each calendar that the lines name."""
        self._lines = lines
        self._parts = parts
        self.days: year_days.DaysOfYear = cache(self._find_days)
        """The bits of its days (`year_days.bit`) in a year."""
        dates = [line.rule.last.year for line in lines if isinstance(line.rule, year_days.Dates)]
        of_parts = [part.last_date_year for part in parts.values()]
        self.last_date_year: int = max([*dates, *of_parts], default=0)
        """The year of its last date; what it names afterwards, it names in each year."""

    def note(self, day: date) -> str:
        """What is written beside the first line that names the day; empty if nothing is."""
        return next((note for _, note in self._naming(day, takes_away=False)), "")

    def next_days(self, since: date, most: int) -> list[tuple[date, str]]:
        """Its first `most` days from ``since`` on, with their notes: none beyond `YEARS_SHOWN`
        years and its last date.
        """
        last_year = max(since.year + YEARS_SHOWN, self.last_date_year)
        found: list[tuple[date, str]] = []
        day = year_days.first_day(self.days, since, last_year)
        while day is not None and len(found) < most:
            found.append((day, self.note(day)))
            day = year_days.first_day(self.days, day + A_DAY, last_year)
        return found

    def taken_away_by(self, day: date) -> str:
        """The ``not`` line that takes a day which other lines name, with its note; else empty."""
        if self._named(day.year, False) & year_days.bit(day):
            for line, note in self._naming(day, takes_away=True):
                return " ".join([line.text, note]).rstrip()
        return ""

    def _naming(self, day: date, takes_away: bool) -> Iterator[tuple[CalendarLine, str]]:
        """The lines that name the day, each with its note or that of the calendar it names."""
        for line in self._lines:
            if line.takes_away is takes_away and self._days_of(line, day.year) & year_days.bit(day):
                yield line, line.note or (self._parts[line.part].note(day) if line.part else "")

    def _find_days(self, year: int) -> int:
        spend(len(self._lines) // LINES_A_STEP)
        return self._named(year, False) & ~self._named(year, True)

    def _named(self, year: int, takes_away: bool) -> int:
        lines = (line for line in self._lines if line.takes_away is takes_away)
        return year_days.any_of(self._days_of(line, year) for line in lines)

    def _days_of(self, line: CalendarLine, year: int) -> int:
        return line.rule(year) if line.rule else self._parts[line.part or ""].days(year)


@lru_cache(maxsize=256)
def read_calendar(content: str) -> tuple[CalendarLine, ...]:
    """The lines of a calendar; raises `InvalidCalendar` with the line's number."""
    if len(content.encode("utf-8", "replace")) > MOST_CHARACTERS:
        raise InvalidCalendar(
            "the calendar is too long",
            f"at most {MOST_CHARACTERS} bytes are allowed",
            "split it, and name the parts with `calendar` lines",
        )
    if _CONTROL.search(content):
        raise InvalidCalendar(
            "the calendar has a control character", "a calendar is text, line by line", _EXAMPLE
        )
    written = enumerate(content.split("\n"), start=1)
    read = (_read_line(line.strip(" \t\r"), number) for number, line in written)
    lines = tuple(line for line in read if line is not None)
    if lines and all(line.takes_away for line in lines):
        raise InvalidCalendar(
            "the calendar has no line that names days", "`not` lines only take away", _EXAMPLE
        )
    return lines


@lru_cache(maxsize=64)
def read_calendars(calendars: Calendars) -> Mapping[str, Calendar]:
    """All these calendars by name. Raises `InvalidCalendar` for one that can't be read or contains
    itself, `InvalidSpec` for one that names another that is not among them.
    """
    contents = dict(calendars)
    lines = sum(content.count("\n") + 1 for content in contents.values())
    if lines > MOST_LINES_IN_ALL:
        raise InvalidSpec(
            f"the spec's calendars have {lines} lines together",
            f"at most {MOST_LINES_IN_ALL} are allowed, those of the calendars that they name, too",
            "remove dates that are over, or write days that come each year with `yearly`",
        )
    found: dict[str, Calendar] = {}
    for name in contents:
        _build(name, contents, found, ())
    return found


def _build(
    name: str, contents: Mapping[str, str], found: dict[str, Calendar], way: tuple[str, ...]
) -> Calendar:
    if name in way:
        raise InvalidCalendar(
            f'calendar "{name}" contains itself: {" > ".join([*way[way.index(name) :], name])}',
            "a calendar may name others, but not in a circle",
            "remove one of the `calendar` lines",
        )
    if name in found:
        return found[name]
    if name not in contents or len(way) > MOST_CALENDARS:
        raise unknown_calendar(name, contents)
    lines = read_calendar(contents[name])
    parts = {
        line.part: _build(line.part, contents, found, (*way, name)) for line in lines if line.part
    }
    found[name] = Calendar(lines, parts)
    return found[name]


def unknown_calendar(name: str, contents: Mapping[str, str]) -> InvalidSpec:
    """The refusal of a spec that names a calendar that is not known."""
    known = ", ".join(sorted(contents)[:5])
    return InvalidSpec(
        f'calendar "{name}" is not known',
        "a spec names calendars that exist, spelled exactly",
        f"known here: {known}" if known else "`pgcron-ha calendars list` shows them",
    )


def _read_line(written: str, number: int) -> CalendarLine | None:
    said, *note = _NOTE.split(written, maxsplit=1)
    words = said.split()
    if not words:
        return None
    text = " ".join(words)
    takes_away = words[0].lower() == "not"
    days = " ".join(words[1:]) if takes_away else text
    part = _PART.fullmatch(days)
    try:
        if len(written) > MOST_CHARACTERS_OF_LINE:
            raise InvalidSpec(
                f"it has {len(written)} characters",
                f"a line has at most {MOST_CHARACTERS_OF_LINE}, with its note",
            )
        rule = None if part else _rule(days)
    except InvalidSpec as error:
        raise InvalidCalendar(f"line {number}: {error.message}", error.detail, _EXAMPLE) from None
    except ValueError:
        raise InvalidCalendar(
            f'line {number}: "{text[:60]}" does not name days',
            "a line is dates, yearly dates, days of the week, or calendar and a name; or not and"
            " these",
            _EXAMPLE,
        ) from None
    name = part[1] if part else None
    return CalendarLine(rule, name, takes_away, "".join(note).strip(" \t"), text)


def _rule(text: str) -> year_days.DaysOfYear:
    """The days that it names; raises ValueError if it names none, InvalidSpec for wrong dates."""
    for pattern, rule in _RULES.items():
        if match := re.fullmatch(pattern, text.lower(), re.ASCII):
            return rule(match)
    raise ValueError(text)


def _dates(match: re.Match[str]) -> year_days.DaysOfYear:
    first, last = (read_date(text, _EXAMPLE) for text in (match[1], match[2] or match[1]))
    if not timedelta() <= last - first <= timedelta(days=MOST_DAYS_OF_RANGE):
        raise InvalidSpec(
            f'the dates "{match[0]}" end before they begin, or after too many days',
            f"a range is first..last, with at most {MOST_DAYS_OF_RANGE} days between them",
        )
    return year_days.Dates(first, last)


def _yearly(match: re.Match[str]) -> year_days.DaysOfYear:
    month, day = int(match[1]), int(match[2])
    first, last = (month, day), (int(match[3] or month), int(match[4] or day))
    for each in (first, last):
        date(2000, *each)  # a leap year
    return partial(year_days.yearly, first, last)


def _nth(match: re.Match[str]) -> year_days.DaysOfYear:
    place = -1 if match[3] == "l" else int(match[3])
    return partial(year_days.nth_weekday, int(match[1]), _WEEKDAYS.index(match[2]), place)


def _easter(match: re.Match[str]) -> year_days.DaysOfYear:
    distance = int(match[1] or 0)
    until = int(match[3] or 0) if match[2] else distance
    if not _EASTER_BOUNDS[0] <= distance <= until <= _EASTER_BOUNDS[1]:
        raise ValueError(match[0])
    return partial(year_days.around_easter, distance, until)


def _weekdays(match: re.Match[str]) -> year_days.DaysOfYear:
    days: set[int] = set()
    for low, high in re.findall(r"(\w+)(?:-(\w+))?", match[0]):
        first, last = _WEEKDAYS.index(low), _WEEKDAYS.index(high or low)
        days |= {(first + step) % 7 for step in range((last - first) % 7 + 1)}
    return partial(year_days.weekdays_of, frozenset(days))


_DAY = f"(?:{'|'.join(_WEEKDAYS)})"
_RULES: dict[str, Callable[[re.Match[str]], year_days.DaysOfYear]] = {
    r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?": _dates,
    r"yearly (\d\d)-(\d\d)(?:\.\.(\d\d)-(\d\d))?": _yearly,
    rf"yearly (0[1-9]|1[0-2])-({_DAY})#([1-5l])": _nth,
    r"yearly easter([+-]\d{1,3})?(\.\.easter([+-]\d{1,3})?)?": _easter,
    rf"{_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*": _weekdays,
}
