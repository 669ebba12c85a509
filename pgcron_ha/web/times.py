"""Times that people write: into filters (``24h`` ago), into forms, and when they ask why something
did not run at a wall time. Pure: the current instant is an argument.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from pgcron_ha.config.times import read_time
from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.web.formats import offset

# How long ago, or when.
Moment: TypeAlias = timedelta | datetime

_YEARS: Final = range(1971, 8000)
_LONGEST: Final = timedelta(days=36_525)


def parse_moment(text: str, zone: ZoneInfo, now: datetime) -> Moment:
    """What a filter of time says; a time without a zone is the viewer's. InvalidInput."""
    with suppress(ValueError, OverflowError):
        written = read_time(text)
        if isinstance(written.value, timedelta):
            if written.value < _LONGEST:
                return written.value
        elif (found := written.at(now, zone).astimezone(UTC)).year in _YEARS:
            return found
    raise InvalidInput(
        f"'{text[:60]}' is not a time",
        "A time is how long ago (30m, 24h, 7d), or an instant such as 2026-11-21 06:30 "
        "(in the zone that times are shown in) or 2026-11-21T06:30:00Z.",
        "Write for example 24h.",
    )


def resolve(moment: Moment, now: datetime) -> datetime:
    """The instant of a moment."""
    return now - moment if isinstance(moment, timedelta) else moment


def written_instant(text: str, zone: ZoneInfo, now: datetime, direction: int = -1) -> datetime:
    """In UTC, what `read_time` reads; without an offset it is wall time in `zone`. A duration is so
    long ago, or with direction 1 from now. InvalidInput.
    """
    try:
        return read_time(text).at(now, zone, direction).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"'{text[:60]}' is not a date and time",
            f"An instant is wall time in {zone.key}, or has its offset.",
            "Write for example 2026-12-24 18:00, 18:30, yesterday 03:00 or 2026-12-24T18:00:00Z.",
        ) from None


def written_end(text: str, zone: ZoneInfo, now: datetime) -> Moment:
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
    found = _parsed(text, zone, now)
    if found.tzinfo is not None:
        return [Meant(_in_utc(found, text), None)]
    early = _in_utc(found.replace(tzinfo=zone, fold=0), text)
    late = _in_utc(found.replace(tzinfo=zone, fold=1), text)
    if early == late:
        return [Meant(early, None)]
    shown = f"{found:%Y-%m-%d %H:%M:%S}"
    if early.astimezone(zone).replace(tzinfo=None) != found:
        instead = early.astimezone(zone)
        note = f"{shown} never was in {zone.key}: the clock was set forward over it. {{}}"
        return [Meant(early, note.format(f"What would have been it was {instead:%H:%M:%S}."))]
    return [
        Meant(early, _twice(shown, zone, early, "first")),
        Meant(late, _twice(shown, zone, late, "second")),
    ]


def _twice(shown: str, zone: ZoneInfo, instant: datetime, word: str) -> str:
    shift = offset(instant.astimezone(zone))
    return f"{shown} was twice in {zone.key}; this is the {word}, at UTC{shift}."


def _parsed(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    with suppress(ValueError, OverflowError):
        written = read_time(text)
        if not isinstance(written.value, timedelta):
            return written.last_wall(now, zone)
    raise InvalidInput(
        f"'{text[:60]}' is not a time",
        "A time is a wall time such as 02:00 (the last one), yesterday 02:00 or 2026-11-21 02:00,"
        " or an instant with its offset such as 2026-11-21T02:00:00Z.",
        "Write it so, and choose the zone that it is in.",
    )


def _in_utc(found: datetime, text: str) -> datetime:
    with suppress(OverflowError, ValueError):
        instant = found.astimezone(UTC)
        if EARLIEST <= instant <= LATEST:
            return instant
    raise InvalidInput(
        f"'{text[:60]}' is outside of the calendar",
        f"Schedules fire in the years {EARLIEST.year} to {LATEST.year}.",
        "Ask about a time that a schedule can have.",
    )
