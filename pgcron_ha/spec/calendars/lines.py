"""Spec lines that name a calendar: ``not in holidays``, ``only in business-days, move next``.

``not in`` leaves out the calendar's days, ``only in`` all others. What would have fired on such a
day is skipped or, with ``move next`` and ``move previous``, fires at the same wall time of the next
or previous day that is allowed (`pgcron_ha.spec.calendars.shift`). A day is that of the schedule's
zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.calendars.calendar import Calendar
from pgcron_ha.spec.exclusions import DaysExclusion
from pgcron_ha.spec.year_days import REPEATS_AFTER, whole_year

_LINE = re.compile(
    r"(not|only) in (?P<name>[a-z0-9][a-z0-9_.-]{0,99})"
    r"(?: ?, ?(?:skip|move (?P<move>next|previous)))?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class CalendarUse:
    """The parsed line."""

    canonical: str
    """The line's text, the same for all spellings."""
    name: str
    keeps: bool
    """``only in``: the calendar's days are the allowed ones."""
    move: str | None
    """``next``, ``previous``, or None: skip."""


@dataclass(frozen=True)
class CalendarExclusion(DaysExclusion):
    """A line with its calendar: the days that it takes."""

    use: CalendarUse
    calendar: Calendar

    def taken(self, year: int) -> int:
        """The bits of the days that it takes."""
        days = self.calendar.days(year)
        return whole_year(year) & ~days if self.use.keeps else days

    def why(self, day: date) -> str:
        """By which calendar a day is taken, and what is noted there."""
        if self.use.keeps:
            because = self.calendar.taken_away_by(day)
            reported = f"calendar {self.use.name}: {day} is not one of its days"
            return f"{reported} ({because})" if because else reported
        return " ".join([f"calendar {self.use.name}: {day}", self.calendar.note(day)]).rstrip()

    def last_year(self, day: date) -> int:
        """The calendar repeats after 400 years, and with it what is not a date."""
        return max(day.year, self.calendar.last_date_year) + REPEATS_AFTER


def read_calendar_use(words: list[str]) -> CalendarUse:
    """Read the words of a line that `names_calendar`; raises `InvalidSpec`."""
    match = _LINE.fullmatch(" ".join(words))
    if match is None:
        raise InvalidSpec(
            f'"{" ".join(words)[:60]}" does not name a calendar',
            "it is written: not in NAME, or only in NAME; then, if its fires shall move,"
            ' ", move next" or ", move previous"',
            'for example "not in holidays" or "only in business-days, move next"',
        )
    kind, name, move = match[1].lower(), match["name"], match["move"] and match["move"].lower()
    canonical = f"{kind} in {name}" + (f", move {move}" if move else "")
    return CalendarUse(canonical, name, kind == "only", move)


def names_calendar(words: list[str]) -> bool:
    """Whether a line's words are for `read_calendar_use`."""
    kind = words[0].lower()
    return kind == "only" or (kind == "not" and len(words) > 1 and words[1].lower() == "in")
