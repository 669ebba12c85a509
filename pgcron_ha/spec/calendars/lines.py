"""Spec lines that name a calendar: ``not in holidays``, ``only in business-days, move next``.

``not in`` leaves out the calendar's days, ``only in`` all others. What would have fired on such a
day is skipped or, with ``move next`` and ``move previous``, fires at the same wall time of the next
or previous day that is allowed (`pgcron_ha.spec.calendars.shift`). A day is that of the schedule's
zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pgcron_ha.spec.calendars.calendar import Calendar
from pgcron_ha.spec.exclusions import DaysExclusion
from pgcron_ha.spec.year_days import REPEATS_AFTER, whole_year


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
