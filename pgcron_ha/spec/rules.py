"""The rules of a spec: each says when it fires, and knows nothing of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Protocol, runtime_checkable

from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.spec.budget import search, spend
from pgcron_ha.spec.cron.expression import CronExpression, NthExpression
from pgcron_ha.spec.cron.fires import DstPolicy, count_fires, next_until, previous_fire
from pgcron_ha.spec.text import duration_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


@runtime_checkable
class FireRule(Protocol):
    """One line of a spec: it fires at whole seconds, the same ones for every caller."""

    @property
    def canonical(self) -> str:
        """The line's text, the same for all spellings."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for its author."""

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire later than ``after``, or None; any later than ``until`` may be None."""

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""


@dataclass(frozen=True)
class CronRule:
    """A cron line in its zone."""

    expression: CronExpression
    timezone: str
    dst: DstPolicy
    written: str | None = None
    """The line's canonical text when it is more than the expression's."""

    @property
    def canonical(self) -> str:
        """The expression's canonical text, unless the line says more."""
        return self.written or self.expression.canonical

    @cached_property
    def seconds_of_day(self) -> tuple[int, ...]:
        """The expression's times, in seconds since midnight."""
        named = self.expression
        each = product(named.hours, named.minutes, named.seconds)
        return tuple(hour * 3600 + minute * 60 + second for hour, minute, second in each)

    @property
    def counts(self) -> bool:
        """Whether it fires on some of the expression's times only."""
        return isinstance(self.expression, NthExpression)

    @property
    def notes(self) -> tuple[str, ...]:
        """The expression's notes."""
        return self.expression.notes

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire in (after, until]."""
        return next_until(self.expression, self.timezone, after, self.dst, until)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""
        return previous_fire(self.expression, self.timezone, before, self.dst)

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        return count_fires(self.expression, self.timezone, after, until, self.dst, most)


@dataclass(frozen=True)
class IntervalRule:
    """Every multiple of ``period`` before and after ``anchor``."""

    period: timedelta
    anchor: datetime
    notes: tuple[str, ...] = ()

    @property
    def canonical(self) -> str:
        """``every 1h30m``, with ``from`` and the instant in UTC when it is not the epoch."""
        text = f"every {duration_text(self.period)}"
        if self.anchor == EPOCH:
            return text
        return f"{text} from {self.anchor:%Y-%m-%dT%H:%M:%SZ}"

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire later than ``after``, or None beyond the calendar: no need to search."""
        if after >= LATEST:
            return None
        spend()
        count = (max(after, EARLIEST) - self.anchor) // self.period + 1
        return self._fire(count)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``, or None beyond the calendar."""
        if before <= EARLIEST:
            return None
        count = -((self.anchor - min(before, LATEST)) // self.period) - 1
        return self._fire(count)

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until, exact."""
        start, end = max(after, EARLIEST), min(until, LATEST)
        return max(0, (end - self.anchor) // self.period - (start - self.anchor) // self.period)

    def _fire(self, count: int) -> datetime | None:
        distance = count * self.period
        if not EARLIEST - self.anchor <= distance <= LATEST - self.anchor:
            return None
        return self.anchor + distance


@dataclass(frozen=True)
class InstantRule:
    """One instant, once."""

    instant: datetime
    canonical: str
    notes: tuple[str, ...] = ()

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The instant, if it is later than ``after``."""
        return self.instant if self.instant > after else None

    def previous(self, before: datetime) -> datetime | None:
        """The instant, if it is earlier than ``before``."""
        return self.instant if self.instant < before else None

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """1 or 0."""
        return int(after < self.instant <= until)


def fires_of(rule: FireRule, after: datetime, until: datetime) -> Iterator[datetime]:
    """All fires in (after, until], ascending, and perhaps one more."""
    fire: datetime | None = after
    while fire is not None:
        with search():
            fire = rule.next(fire, until)
        if fire is not None:
            yield fire


def fires_a_day(rule: FireRule) -> int:
    """At most, for those rules that say so."""
    if isinstance(rule, CronRule):
        return rule.expression.times_a_day
    return _DAY // rule.period if isinstance(rule, IntervalRule) else 0


def seconds_of_day(rule: FireRule, day: date, begin: datetime) -> Iterable[int]:
    """When a rule fires on a day that begins at ``begin`` and has no change of the clock."""
    if isinstance(rule, IntervalRule):
        period = rule.period // _SECOND
        return range((rule.anchor - begin) // _SECOND % period, 86_400, period)
    if isinstance(rule, CronRule) and not rule.counts:
        return rule.seconds_of_day if rule.expression.days.has(day) else ()
    return _seconds_by_search(rule, begin)


def _seconds_by_search(rule: FireRule, begin: datetime) -> Iterable[int]:
    end = begin + _DAY
    fire = rule.next(begin - _SECOND, end)
    while fire is not None and fire < end:
        yield (fire - begin) // _SECOND
        fire = rule.next(fire, end)
