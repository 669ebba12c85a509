"""The rules of a spec: each says when it fires, and knows nothing of the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgcron_ha.spec.bounds import A_DAY, EARLIEST, LATEST, naive_utc
from pgcron_ha.spec.budget import search, spend
from pgcron_ha.spec.cron.expression import CronExpression
from pgcron_ha.spec.cron.fires import DstPolicy, next_until
from pgcron_ha.spec.recurring_times import RecurringTimes
from pgcron_ha.spec.zones import NEAR, first_change, load_zone, wall_clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FireRule(ABC):
    """One line of a spec: it fires at whole seconds, the same ones for every caller."""

    canonical: str
    """The line's text, the same for all spellings."""

    @abstractmethod
    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire in (after, until], or None."""

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        number, fire = 0, self.next(after, until)
        while fire is not None and number <= most:
            number += 1
            fire = self.next(fire, until)
        return number


@dataclass(frozen=True)
class WallRule(FireRule):
    """Wall times in their zone: a cron line, or a recurrence rule."""

    times: CronExpression | RecurringTimes
    timezone: str
    dst: DstPolicy
    last: datetime = LATEST
    """Nothing fires later."""

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """Found in the zone, by the policy."""
        return next_until(self.times, self.timezone, after, self.dst, min(until, self.last))

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """Not enumerated while the clock is not changed: a long outage is counted at once."""
        start, end = naive_utc(after), naive_utc(until)
        if start >= end:
            return 0
        is_changed = first_change(self.timezone, start - NEAR, end) is not None
        if is_changed or isinstance(self.times, RecurringTimes):
            return super().count(after, until, most)
        zone = load_zone(self.timezone)
        return self.times.count_between(wall_clock(zone, start), wall_clock(zone, end))


@dataclass(frozen=True)
class IntervalRule(FireRule):
    """Every multiple of ``period`` before and after ``anchor``."""

    period: timedelta
    anchor: datetime

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """Counted from the anchor: no need to search."""
        spend()
        distance = ((max(after, EARLIEST) - self.anchor) // self.period + 1) * self.period
        return self.anchor + distance if distance <= min(until, LATEST) - self.anchor else None

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until, exact."""
        start, end = max(after, EARLIEST), min(until, LATEST)
        return max(0, (end - self.anchor) // self.period - (start - self.anchor) // self.period)


@dataclass(frozen=True)
class InstantRule(FireRule):
    """One instant, once."""

    instant: datetime

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The instant, if it is one of these."""
        return self.instant if after < self.instant <= until else None


@dataclass(frozen=True)
class AssetRule(FireRule):
    """No time fires it, but updates of all its assets."""

    assets: tuple[str, ...]

    def next(self, after: datetime, until: datetime) -> None:
        """None: only the database knows of updates."""


def fires_of(rule: FireRule, after: datetime, until: datetime) -> Iterator[datetime]:
    """All fires in (after, until], ascending."""
    fire: datetime | None = after
    while fire is not None:
        with search():
            fire = rule.next(fire, until)
        if fire is not None:
            yield fire


def fires_a_day(rule: FireRule) -> int:
    """At most, for those rules that say so."""
    if isinstance(rule, WallRule):
        return rule.times.times_a_day
    return A_DAY // rule.period if isinstance(rule, IntervalRule) else 0
