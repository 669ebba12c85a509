"""Where the calendar begins and ends, and how a rule that looks forward looks back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

# Nothing fires outside these: cron began in 1970, and datetime ends with the year 9999.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 12, 31, tzinfo=UTC)

A_DAY, A_SECOND = timedelta(days=1), timedelta(seconds=1)
AN_INSTANT = timedelta(microseconds=1)
"""The least difference between two instants."""

NextUntil = Callable[[datetime, datetime], datetime | None]
"""The first fire in (after, until], or None."""


def last_before(next_until: NextUntil, before: datetime) -> datetime | None:
    """The last fire earlier than ``before``, or None: never before.

    Found by looking forward alone, so that looking back can neither invent nor lose an instant: a
    fire is searched for from further and further back, then the stretch between it and ``before``
    is halved until it is empty.
    """
    # The last whole second that is earlier: a fire is earlier than both or neither.
    until = (naive_utc(before) - AN_INSTANT).replace(microsecond=0, tzinfo=UTC)
    last = _some_fire_until(next_until, until)
    if last is None:
        return None
    while last < until:  # no fire lies after ``until``
        middle = last + (until - last) // A_SECOND // 2 * A_SECOND
        fire = next_until(middle, until)
        if fire is None:
            until = middle
        else:
            last = fire
    return last


def naive_utc(instant: datetime) -> datetime:
    """An aware instant as naive UTC, within the calendar."""
    if instant <= EARLIEST:
        return EARLIEST.replace(tzinfo=None)
    if instant >= LATEST:
        return LATEST.replace(tzinfo=None)
    return instant.astimezone(UTC).replace(tzinfo=None)


def _some_fire_until(next_until: NextUntil, until: datetime) -> datetime | None:
    distance = timedelta(minutes=1)
    since = until
    while since > EARLIEST:
        begin = until - distance if distance < until - EARLIEST else EARLIEST
        fire = next_until(begin, since)
        if fire is not None:
            return fire
        since = begin
        distance *= 8
    return None
