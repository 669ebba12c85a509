"""Recurrence rules of iCalendar (RFC 5545, 3.3.10).

``rrule FREQ=…;… [from <instant>]``. The rule names wall times of the schedule's zone, counted from
its instant (DTSTART; 1970-01-01T00:00 if none is written). Unlike RFC 5545, the instant itself is
no fire unless the rule names it, and UNTIL with a date lasts until that day is over.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import EARLIEST, LATEST, last_before, naive_utc
from pgcron_ha.spec.cron.fires import DstPolicy, next_until
from pgcron_ha.spec.instants import read_instant
from pgcron_ha.spec.rrule.days import HOURLY, RecurringTimes
from pgcron_ha.spec.rrule.parts import EXAMPLE, read_parts
from pgcron_ha.spec.zones import instants_of, load_zone, skipping_change, wall_clock

# A rule that doesn't fire so soon after its instant is refused. Later it may pause for longer, if
# its interval is long.
FIRST_WITHIN = timedelta(days=64 * 366)
START = "1970-01-01T00:00:00"

_END = naive_utc(LATEST)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class RecurrenceRule:
    """An ``rrule`` line in its zone."""

    times: RecurringTimes = field(repr=False)
    counted: tuple[datetime, ...] | None
    """All its wall times, if it has a COUNT."""
    last: datetime
    """Nothing fires later (UNTIL)."""
    timezone: str
    dst: DstPolicy
    canonical: str
    notes: tuple[str, ...] = ()

    def next(self, after: datetime, until: datetime) -> datetime | None:
        """The first fire in (after, until]."""
        return next_until(self, self.timezone, after, self.dst, min(until, self.last))

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""
        return last_before(self.next, min(before, self.last + _SECOND))

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        number, fire = 0, self.next(after, until)
        while fire is not None and number <= most:
            number += 1
            fire = self.next(fire, until)
        return number

    @property
    def wildcard(self) -> bool:
        """A rule that counts hours follows the wall clock, whatever the policy."""
        return self.times.frequency == HOURLY

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first wall time that it names later than ``wall``, or None: none up to ``until``."""
        if self.counted is not None:
            place = bisect_right(self.counted, wall)
            return self.counted[place] if place < len(self.counted) else None
        return next(self.times.walls(wall.replace(microsecond=0) + _SECOND, until), None)


def read_recurrence(words: list[str], timezone: str, dst: DstPolicy) -> RecurrenceRule:
    """Read the words of an ``rrule`` line; raises `InvalidSpec`, also for what does not fire within
    `FIRST_WITHIN`.
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
    found = RecurrenceRule(
        times=parts.times(first),
        counted=None,
        last=parts.last_instant(timezone),
        timezone=timezone,
        dst=dst,
        canonical=f"rrule {parts.canonical}{begin}",
    )
    since = written.instant - _SECOND if parts.count is None else EARLIEST
    if not found.times.may_fire or found.next(since, _soon(written.instant)) is None:
        raise _never(words[1])
    if parts.count is None:
        return found
    counted = tuple(islice(found.times.walls(first, _END), parts.count))
    found = replace(found, counted=counted, last=_last_of(counted, timezone))
    if found.next(since, LATEST) is None:
        raise _never(words[1])
    return found


def _soon(instant: datetime) -> datetime:
    return instant + FIRST_WITHIN if instant < LATEST - FIRST_WITHIN else LATEST


def _never(parts: str) -> InvalidSpec:
    return InvalidSpec(
        f'"rrule {parts[:80]}" never fires',
        f"no instant of its first {FIRST_WITHIN.days // 366} years has all that its parts name",
        EXAMPLE,
    )


def _last_of(counted: tuple[datetime, ...], timezone: str) -> datetime:
    """The last of all passes of the last wall time, whatever the policy."""
    found = instants_of(timezone, counted[-1]) or (skipping_change(timezone, counted[-1]).at,)
    return found[-1].replace(tzinfo=UTC)
