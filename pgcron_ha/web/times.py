"""Times that people write: into filters (``24h`` ago), into forms, and when they ask why something
did not run at a wall time. Pure: the current instant is an argument.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pgcron_ha.config.times import attach, read_time
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.formats import offset
from pgcron_ha.spec.bounds import EARLIEST, LATEST


def written_instant(text: str, zone: ZoneInfo, now: datetime, direction: int = -1) -> datetime:
    """In UTC, what `read_time` reads; without an offset it is wall time in `zone`. A duration is so
    long ago, or with direction 1 from now. InvalidInput.
    """
    with suppress(ValueError, OverflowError):
        found = read_time(text).at(now, zone, direction).astimezone(UTC)
        if EARLIEST <= found <= LATEST:
            return found
    raise _no_time(text, zone)


def written_end(text: str, zone: ZoneInfo, now: datetime) -> timedelta | datetime:
    """A duration from now, which the database adds to its clock, or an instant. InvalidInput."""
    with suppress(ValueError, OverflowError):
        if isinstance(value := read_time(text).value, timedelta):
            return value
    return written_instant(text, zone, now)


class Meant(NamedTuple):
    """An instant that a text may mean, and what the clock did then, if that needs saying."""

    instant: datetime
    note: str | None


def instants(text: str, zone: ZoneInfo, now: datetime) -> list[Meant]:
    """What ``2026-11-21 02:00``, ``02:00`` (the last one) or an instant with an offset mean.

    Without an offset it is wall time in `zone`: two instants when the clock was set back over it;
    the instant that the clock showed instead when it was set forward over it. InvalidInput for what
    is no time.
    """
    try:
        found = read_time(text).last_wall(now, zone)
        early, late = (attach(found.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1))
    except (ValueError, OverflowError):
        raise _no_time(text, zone) from None
    if not EARLIEST <= early <= LATEST:
        raise _no_time(text, zone)
    if early == late:
        return [Meant(early, None)]
    shown = f"{found:%Y-%m-%d %H:%M:%S}"
    if early.astimezone(zone).replace(tzinfo=None) != found:
        note = f"{shown} never was in {zone.key}: the clock was set forward over it. "
        instead = f"What would have been it was {early.astimezone(zone):%H:%M:%S}."
        return [Meant(early, note + instead)]
    said = f"{shown} was twice in {zone.key}; this is the"
    both = ((early, "first"), (late, "second"))
    return [Meant(at, f"{said} {word}, at UTC{offset(at.astimezone(zone))}.") for at, word in both]


def _no_time(text: str, zone: ZoneInfo) -> InvalidInput:
    return InvalidInput(
        f"'{text[:60]}' is not a time",
        f"A time is a date and time in {zone.key} or with its offset, a time of the day, or how"
        f" long ago (24h); in the years {EARLIEST.year} to {LATEST.year}.",
        "Write for example 2026-12-24 18:00, 18:30, yesterday 03:00 or 2026-12-24T18:00:00Z.",
    )
