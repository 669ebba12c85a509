"""What a spec leaves out: the lines that begin with ``not``.

An exclusion covers stretches of time. Both questions, where a stretch ends and where the next one
begins, may be answered too early but never too late: the caller searches again from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import A_DAY, A_SECOND, LATEST, naive_utc
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.expression import CronExpression, parse_cron
from pgcron_ha.spec.instants import read_date
from pgcron_ha.spec.named_days import LONGEST_GAP_IN_YEARS
from pgcron_ha.spec.rules import FireRule, WallRule
from pgcron_ha.spec.year_days import Dates, DaysOfYear, any_of, bit, first_day, whole_year
from pgcron_ha.spec.zones import first_change, instant_at, wall_time

_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_SECONDS_A_DAY = 86_400
EXAMPLE = 'for example "not 2026-12-24..2027-01-01", "not * * * * sat,sun"'


@dataclass(frozen=True)
class Exclusion(ABC):
    """One ``not`` line."""

    canonical: str
    """The line's text, the same for all spellings."""

    @abstractmethod
    def end(self, fire: datetime, rule: FireRule) -> datetime | None:
        """None if the rule's fire isn't covered; else an instant later than it, up to which no
        fire of the rule is left.
        """

    @abstractmethod
    def begin(self, after: datetime) -> datetime:
        """An instant later than ``after`` (not covered), up to which nothing is covered."""

    def taken(self, year: int) -> int:
        """The bits of the days that are covered as a whole, whatever the clocks do on them."""
        return 0

    def takes_day(self, day: date) -> bool:
        """Whether the day is one of these."""
        return bool(self.taken(day.year) & bit(day))


@dataclass(frozen=True)
class InstantExclusion(Exclusion):
    """One instant."""

    instant: datetime

    def end(self, fire: datetime, rule: FireRule) -> datetime | None:
        """The next second, for the instant itself."""
        return fire + A_SECOND if fire == self.instant else None

    def begin(self, after: datetime) -> datetime:
        """The instant, if it is still to come."""
        return self.instant if after < self.instant else LATEST


@dataclass(frozen=True)
class DaysExclusion(Exclusion):
    """Whole days of the zone's calendar."""

    timezone: str

    @abstractmethod
    def last_year(self, day: date) -> int:
        """A search from ``day`` on that finds no day up to this year finds none later."""

    def left(self, year: int) -> int:
        """The bits of the other days."""
        return whole_year(year) & ~self.taken(year)

    def end(self, fire: datetime, rule: FireRule) -> datetime | None:
        """The beginning of the next day that is left, for a fire on one that is taken."""
        day = wall_time(self.timezone, fire).date()
        return self._next(self.left, fire) if self.takes_day(day) else None

    def begin(self, after: datetime) -> datetime:
        """The beginning of the next day that is taken."""
        return self._next(self.taken, after)

    def _next(self, days: DaysOfYear, after: datetime) -> datetime:
        spend(2)
        day = wall_time(self.timezone, after).date()
        return _next_day(self.timezone, after, first_day(days, day + A_DAY, self.last_year(day)))


@dataclass(frozen=True)
class DatesExclusion(DaysExclusion):
    """Dates and ranges of dates, ascending, apart from each other."""

    ranges: tuple[Dates, ...]

    def taken(self, year: int) -> int:
        """Those of the year."""
        return any_of(dates(year) for dates in self.ranges)

    def last_year(self, day: date) -> int:
        """The year after the last of them."""
        return self.ranges[-1].last.year + 1


@dataclass(frozen=True)
class CronExclusion(Exclusion):
    """The seconds whose wall time an expression names."""

    expression: CronExpression
    timezone: str

    def end(self, fire: datetime, rule: FireRule) -> datetime | None:
        """After the second, minute or hour; after its last day if none of the rule's times of a
        day is left.
        """
        wall = wall_time(self.timezone, fire)
        if not self._covers(wall):
            return None
        if self._takes_whole_days_of(rule):
            left = first_day(self._left, wall.date() + A_DAY, wall.year + LONGEST_GAP_IN_YEARS)
            return _next_day(self.timezone, fire, left)
        return _instant(self.timezone, fire, _next(wall, self._grain()))

    def begin(self, after: datetime) -> datetime:
        """The next second, minute, hour or named day."""
        wall = wall_time(self.timezone, after)
        if self.expression.days.has(wall.date()):
            return _instant(self.timezone, after, _next(wall, self._grain()))
        return _next_day(self.timezone, after, self.expression.days.after(wall.date()))

    def taken(self, year: int) -> int:
        """The days that it names, if it names each time of them."""
        return self.expression.days.in_year(year) if self._takes_whole_days_of(None) else 0

    def _left(self, year: int) -> int:
        """The days of a year that it does not name."""
        return whole_year(year) & ~self.expression.days.in_year(year)

    def _covers(self, wall: datetime) -> bool:
        named = self.expression
        return (
            wall.minute in named.minutes
            and wall.hour in named.hours
            and wall.second in named.seconds
            and named.days.has(wall.date())
        )

    def _grain(self) -> timedelta:
        """What is covered as a whole or not at all."""
        if len(self.expression.seconds) < 60:
            return A_SECOND
        return _MINUTE if len(self.expression.minutes) < 60 else _HOUR

    def _takes_whole_days_of(self, rule: FireRule | None) -> bool:
        """Whether it covers each time of a day at which the rule may fire."""
        named = self.expression
        if not isinstance(rule, WallRule) or rule.timezone != self.timezone:
            return named.times_a_day == _SECONDS_A_DAY
        own = rule.times
        pairs = (own.hours, named.hours), (own.minutes, named.minutes), (own.seconds, named.seconds)
        return all(set(some) <= set(covered) for some, covered in pairs)


def read_cron_exclusion(text: str, timezone: str) -> CronExclusion:
    """What a cron expression names, by minutes, or by seconds if it has them."""
    expression = parse_cron(text)
    canonical = expression.canonical
    if len(text.split()) < 6:  # whole minutes
        expression = replace(expression, seconds=tuple(range(60)))
    elif len(canonical.split()) == 5:
        canonical = f"0 {canonical}"
    return CronExclusion(f"not {canonical}", expression, timezone)


def read_dates(text: str, timezone: str) -> DatesExclusion:
    """Dates and ranges of dates; raises `InvalidSpec`."""
    ranges: list[tuple[date, date]] = []
    for item in text.split(","):
        low, dots, high = item.partition("..")
        first = read_date(low, EXAMPLE)
        last = read_date(high, EXAMPLE) if dots else first
        if last < first:
            raise InvalidSpec(
                f'the dates "{item}" end before they begin', "a range is first..last", EXAMPLE
            )
        ranges.append((first, last))
    joined: list[Dates] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1].last + A_DAY:
            joined[-1] = Dates(joined[-1].first, max(joined[-1].last, last))
        else:
            joined.append(Dates(first, last))
    texts = (f"{d.first}" if d.first == d.last else f"{d.first}..{d.last}" for d in joined)
    return DatesExclusion(f"not {','.join(texts)}", timezone, tuple(joined))


def _next(wall: datetime, grain: timedelta) -> datetime:
    """The next wall time at which a second, minute or hour begins."""
    return wall + grain - (wall - datetime.min) % grain


def _next_day(timezone: str, after: datetime, day: date | None) -> datetime:
    return LATEST if day is None else _instant(timezone, after, datetime.combine(day, time.min))


def _instant(timezone: str, after: datetime, wall: datetime) -> datetime:
    """When the zone's clocks show ``wall``; earlier if they are changed before, never ``after``."""
    since = naive_utc(after)
    found = max(instant_at(timezone, wall), since + A_SECOND)
    change = first_change(timezone, since, found)
    return min(found if change is None else change.at, naive_utc(LATEST)).replace(tzinfo=UTC)
