"""Recurrence rules of iCalendar (RFC 5545, 3.3.10), as python-dateutil counts them.

``rrule FREQ=…;… [from <instant>]``. The rule names wall times of the schedule's zone, counted from
its instant (DTSTART; 1970-01-01T00:00 if none is written). Unlike RFC 5545, the instant itself is
no fire unless the rule names it, and UNTIL with a date lasts until that day is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from dateutil.rrule import DAILY, HOURLY, MONTHLY, WEEKLY, rrule

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.model.calendar_bounds import EARLIEST, LATEST, last_before, naive_utc
from pgcron_ha.model.cron import DstPolicy, is_first_pass_only, is_run_late
from pgcron_ha.model.recurrence_parts import EXAMPLE, read_parts
from pgcron_ha.model.written_instants import read_instant
from pgcron_ha.model.zones import (
    first_change,
    instants_of,
    load_zone,
    skipping_change,
    wall_clock,
)

# No rule that counts days pauses for longer (Feb 29 on one weekday); those that count years may.
LOOK_AHEAD = timedelta(days=64 * 366)
START = "1970-01-01T00:00:00"

_END = naive_utc(LATEST)
_NEAR = timedelta(days=2)  # more than the largest jump of any zone (24 h)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class RecurrenceRule:
    """An ``rrule`` line in its zone."""

    first: datetime
    """The wall time from which it counts."""
    arguments: dict[str, Any] = field(compare=False, repr=False)
    """Of dateutil's rule, with every BY part that `first` implies: so that it may begin later."""
    counted: tuple[datetime, ...] | None
    """All its wall times, if it has a COUNT."""
    last: datetime
    """Nothing fires later (UNTIL)."""
    timezone: str
    dst: DstPolicy
    canonical: str
    notes: tuple[str, ...] = ()

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``, or None: none within `LOOK_AHEAD`."""
        return self._next_until(after, self.last)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""
        return last_before(self._next_until, min(before, self.last + _SECOND))

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        number, fire = 0, self._next_until(after, until)
        while fire is not None and number <= most:
            number += 1
            fire = self._next_until(fire, until)
        return number

    @property
    def is_hourly(self) -> bool:
        """Whether it counts hours: such a rule follows the wall clock, whatever the policy."""
        return bool(self.arguments["freq"] == HOURLY)

    def wall_after(self, wall: datetime) -> datetime | None:
        """The first wall time (naive) that it names later than ``wall``, within `LOOK_AHEAD`."""
        return next(self._walls(wall + _SECOND, _later(max(wall, self.first))), None)

    def _next_until(self, after: datetime, until: datetime) -> datetime | None:
        since = naive_utc(after).replace(microsecond=0)
        wall = wall_clock(load_zone(self.timezone), since)
        # Near a change the order of wall times is not that of instants.
        is_near = first_change(self.timezone, since - _NEAR, min(since + _NEAR, _END)) is not None
        found: datetime | None = None
        end: datetime | None = None
        latest = min(naive_utc(min(until, self.last)), _END - _NEAR) + _NEAR
        stop = min(_later(max(wall, self.first)), latest)
        for named in self._walls(wall - _NEAR if is_near else wall, stop):
            if end is not None and named > end:
                break
            for instant in self._instants(named):
                if instant > since and (found is None or instant < found):
                    found, end = instant, named + _NEAR if is_near else named
        if found is None:
            return None
        fire = found.replace(tzinfo=UTC)
        return fire if fire <= min(until, self.last, LATEST) else None

    def _walls(self, start: datetime, stop: datetime) -> Iterator[datetime]:
        """The wall times in [start, stop], ascending."""
        if self.counted is not None:
            yield from (wall for wall in self.counted if start <= wall)
            return
        for wall in rrule(dtstart=self._beginning(start), **self.arguments):
            if wall > stop:
                return
            if wall >= start:
                yield wall

    def _beginning(self, start: datetime) -> datetime:
        """Where the rule may begin instead, to name the same from ``start`` on."""
        frequency, interval = self.arguments["freq"], self.arguments["interval"]
        begin = self._begin_of_period()
        if frequency > MONTHLY:
            length = interval * _LENGTHS[frequency]
            periods = (start - begin) // length - 1
            return begin + periods * length if periods > 0 else self.first
        months = interval * (1 if frequency == MONTHLY else 12)  # they have no fixed length
        passed = (start.year - begin.year) * 12 + start.month - begin.month
        periods = passed // months - 1
        month = begin.year * 12 + begin.month - 1 + periods * months
        return datetime(month // 12, month % 12 + 1, 1) if periods > 0 else self.first

    def _begin_of_period(self) -> datetime:
        """The beginning of the year, month, week, day or hour of the first wall time."""
        frequency = self.arguments["freq"]
        if frequency == HOURLY:
            return self.first.replace(minute=0, second=0)
        day = datetime(self.first.year, self.first.month, self.first.day)
        if frequency == WEEKLY:
            return day - timedelta(days=(day.weekday() - self.arguments["wkst"]) % 7)
        if frequency == DAILY:
            return day
        return day.replace(day=1) if frequency == MONTHLY else day.replace(day=1, month=1)

    def _instants(self, wall: datetime) -> tuple[datetime, ...]:
        """When the wall time fires, by the policy for changes of the clock."""
        found = instants_of(self.timezone, wall)
        follows = self.dst is DstPolicy.ROBFIG or self.is_hourly
        if len(found) == 2:
            is_once = not follows and is_first_pass_only(found[1] - found[0], self.dst)
            return found[:1] if is_once else found
        if not found and not follows:
            change = skipping_change(self.timezone, wall)
            return (change.at,) if is_run_late(change, self.dst) else ()
        return found


# Of the frequencies whose periods all last the same.
_LENGTHS = {WEEKLY: timedelta(weeks=1), DAILY: timedelta(days=1), HOURLY: timedelta(hours=1)}


def read_recurrence(
    words: list[str], timezone: str, dst: DstPolicy, *, must_fire: bool = True
) -> RecurrenceRule:
    """Read the words of an ``rrule`` line; raises `InvalidSpec`, also for what never fires.

    To find that out of any rule takes up to seconds: whoever asks for some years of a rule alone
    says that it need not fire.
    """
    if len(words) not in (2, 4) or (len(words) == 4 and words[2].lower() != "from"):
        raise InvalidSpec(
            "the recurrence rule is not complete"
            if len(words) in (1, 3)
            else "the recurrence rule has words too many",
            "a recurrence rule is: rrule <parts> [from <instant>]",
            EXAMPLE,
        )
    parts = read_parts(words[1])
    written = read_instant(words[3] if len(words) == 4 else START, timezone, EXAMPLE)
    if "COUNT" in parts and len(words) == 2:
        raise InvalidSpec(
            "COUNT without an instant to count from",
            "what is counted begins with the instant of the rule",
            'for example "rrule FREQ=DAILY;COUNT=5 from 2026-12-01T09:00"',
        )
    first = wall_clock(load_zone(timezone), naive_utc(written.instant))
    begin = f" from {first:%Y-%m-%dT%H:%M:%S}" if len(words) == 4 else ""
    arguments = parts.for_dateutil(first)
    if not parts.may_fire:
        raise _never(words[1])
    try:
        counted = None if parts.count is None else _counted(first, parts.count, arguments)
        rrule(dtstart=first, **arguments)
    except ValueError:  # an hour that no multiple of the interval reaches
        raise _never(words[1]) from None
    found = RecurrenceRule(
        first=first,
        arguments=arguments,
        counted=counted,
        last=_last_of(counted, timezone) if counted else parts.last_instant(timezone),
        timezone=timezone,
        dst=dst,
        canonical=f"rrule {parts.canonical}{begin}",
    )
    if (
        must_fire
        and found.next(EARLIEST if parts.count is not None else written.instant - _SECOND) is None
    ):
        raise _never(words[1])
    return found


def _never(parts: str) -> InvalidSpec:
    return InvalidSpec(
        f'"rrule {parts[:80]}" never fires', "no instant has all that its parts name", EXAMPLE
    )


def _last_of(counted: tuple[datetime, ...], timezone: str) -> datetime:
    """The last of all passes of the last wall time, whatever the policy."""
    found = instants_of(timezone, counted[-1]) or (skipping_change(timezone, counted[-1]).at,)
    return found[-1].replace(tzinfo=UTC)


def _later(wall: datetime) -> datetime:
    return wall + LOOK_AHEAD if wall < _END - LOOK_AHEAD else _END


def _counted(first: datetime, count: int, arguments: dict[str, Any]) -> tuple[datetime, ...]:
    """The first wall times of a rule, those within `LOOK_AHEAD`."""
    found = takewhile(lambda wall: wall < _later(first), rrule(dtstart=first, **arguments))
    return tuple(islice(found, count))
