"""Instants and dates as people write them in a spec."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import NamedTuple

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.spec.zones import instant_at

_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII | re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class WrittenInstant(NamedTuple):
    """An instant, and the one text for all its spellings, which reads back to the same in the same
    zone: in UTC if an offset was written, else as the wall time of the schedule's zone.
    """

    instant: datetime
    canonical: str


def read_instant(text: str, timezone: str | None, example: str) -> WrittenInstant:
    """Read ISO 8601 with an offset or, if a zone is given, as its wall time.

    A wall time that the zone repeats is its first pass; one that it skips is the end of the gap.
    Raises `InvalidSpec`; ``example`` says how it is written there.
    """
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError(text)
        read = datetime.fromisoformat(text.upper())
        if read.tzinfo is not None:
            instant = read.astimezone(UTC)
        elif timezone is not None:
            instant = instant_at(timezone, read).replace(tzinfo=UTC)
        else:
            raise ValueError(text)
    except ValueError:  # also a 13th month, a 61st minute
        offset = "with its offset" if timezone is None else "with or without an offset"
        raise InvalidSpec(
            f'"{text[:40]}" is not an instant',
            f"an instant is an ISO 8601 date and time {offset}, in whole seconds",
            example,
        ) from None
    except OverflowError:
        raise _out_of_bounds(text, example) from None
    if not EARLIEST <= instant <= LATEST:
        raise _out_of_bounds(text, example)
    if read.tzinfo is None:
        return WrittenInstant(instant, f"{read:%Y-%m-%dT%H:%M:%S}")
    return WrittenInstant(instant, f"{instant:%Y-%m-%dT%H:%M:%SZ}")


def read_date(text: str, example: str) -> date:
    """Read an ISO 8601 date of the calendar; raises `InvalidSpec`."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError(text)
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidSpec(
            f'"{text[:40]}" is not a date', "a date is written year-month-day", example
        ) from None
    if not EARLIEST.date() <= day < LATEST.date():
        raise _out_of_bounds(text, example)
    return day


def _out_of_bounds(text: str, example: str) -> InvalidSpec:
    return InvalidSpec(
        f'"{text}" is outside the calendar', "instants are of the years 1900 to 9998", example
    )
