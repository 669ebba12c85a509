"""Times as people write them, wherever an option, an argument or a form takes an instant."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, time, timedelta, tzinfo
from typing import Final, NamedTuple

from pgcron_ha.config.values import parse_duration

_CLOCK: Final = re.compile(r"(?:(yesterday|today|tomorrow) +)?(\d{1,2}:\d{2}(?::\d{2})?)")
_DAYS: Final = {None: None, "yesterday": -1, "today": 0, "tomorrow": 1}


class WrittenTime(NamedTuple):
    """A time as it was written: which instant it is depends on the zone and on now."""

    value: timedelta | time | datetime
    """How long ago or from now, a time of a day, or a datetime, aware if it has an offset."""
    day: int | None = None
    """Of a time of a day: days from today; None when no day was named."""

    def wall(self, now: datetime, zone: tzinfo | None, direction: int = -1) -> datetime:
        """Wall time in the zone (None: this machine's), or an aware datetime. A duration is so long
        ago, or with direction 1 from now. A time without a day is one of the zone's today.
        OverflowError.
        """
        if isinstance(self.value, timedelta):
            return now + direction * self.value
        if isinstance(self.value, datetime):
            return self.value
        day = now.astimezone(zone).date() + timedelta(days=self.day or 0)
        return datetime.combine(day, self.value)

    def last_wall(self, now: datetime, zone: tzinfo | None) -> datetime:
        """As `wall`, but a time without a day that is still to come is yesterday's."""
        found = self.wall(now, zone)
        is_clock = isinstance(self.value, time) and self.day is None
        if is_clock and found > now.astimezone(zone).replace(tzinfo=None):
            return found - timedelta(days=1)
        return found

    def at(self, now: datetime, zone: tzinfo | None, direction: int = -1) -> datetime:
        """The instant that `wall` is in the zone."""
        return attach(self.wall(now, zone, direction), zone)


def attach(moment: datetime, zone: tzinfo | None) -> datetime:
    """An aware datetime as it is; else wall time in the zone (None: this machine's)."""
    if moment.tzinfo is not None:
        return moment
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def read_time(text: str) -> WrittenTime:
    """``now``, ``2h``, ``18:30``, ``yesterday 03:00``, or a date and time by ISO 8601, with or
    without an offset. Raises `ValueError` for anything else.
    """
    words = text.strip()
    if words == "now":
        return WrittenTime(timedelta())
    with suppress(ValueError, OverflowError):
        return WrittenTime(timedelta(seconds=parse_duration(words.replace(" ", ""))))
    if clock := _CLOCK.fullmatch(words):
        return WrittenTime(time.fromisoformat(clock[2].rjust(5, "0")), _DAYS[clock[1]])
    return WrittenTime(datetime.fromisoformat(words))
