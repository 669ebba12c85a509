"""Instants that people write into filters: ``24h`` (ago), ``2026-11-21 06:30``, RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from pgcron_ha.web.address import WrongAddress

# How long ago, or when.
Moment: TypeAlias = timedelta | datetime

_AGO: Final = re.compile(r"([0-9]{1,5})\s?([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_YEARS: Final = range(1971, 8000)


def parse_moment(text: str, zone: ZoneInfo) -> Moment:
    """What a filter of time says; a time without a zone is the viewer's. InvalidInput."""
    text = text.strip()
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        if found.year in _YEARS:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise WrongAddress(
        f"'{text[:60]}' is not a time",
        "A time is how long ago (30m, 24h, 7d), or an instant such as 2026-11-21 06:30 "
        "(in the zone that times are shown in) or 2026-11-21T06:30:00Z.",
        "Write for example 24h.",
        wrong=text,
    )


def resolve(moment: Moment, now: datetime) -> datetime:
    """The instant of a moment."""
    return now - moment if isinstance(moment, timedelta) else moment
