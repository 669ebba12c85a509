"""How much later than its instant a fire is due, so that not all fall on one second.

Either by chance, another delay for each fire (``jitter``), or by the same delay at each
(``spread_window``): both a hash of the schedule's uuid, so that all nodes and previews agree. The
instant of the fire stays what it is; only its run is due later. A delay by jitter ends before the
next fire is due, so that fires keep their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pgcron_ha.model.calendar_bounds import EARLIEST
from pgcron_ha.model.rules import EPOCH
from pgcron_ha.model.schedule_spec import ScheduleRow
from pgcron_ha.model.spec import Spec

LONGEST: Final = timedelta(days=1)

_MILLISECOND: Final = timedelta(milliseconds=1)
_NOTHING: Final = timedelta(0)
_INSTANT: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class FireDelay:
    """The delays of one schedule's fires, whole milliseconds; one of the two lengths is given."""

    seed: str
    jitter: timedelta = _NOTHING
    window: timedelta = _NOTHING

    def of(self, spec: Spec, fire: datetime) -> timedelta:
        """From nothing to less than the length, and to less than the gap to the next fire."""
        if self.window:
            return self._part(self.window, "window")
        following = spec.next(fire)
        room = self.jitter if following is None else min(self.jitter, following - fire)
        return self._part(room, str((fire - EPOCH) // timedelta(seconds=1)))

    def last_due(self, spec: Spec, instant: datetime) -> datetime:
        """A bound: the fires up to it are those that are due up to the instant."""
        if self.window:
            delay = self._part(self.window, "window")
            return EARLIEST if delay >= instant - EARLIEST else instant - delay
        fire = spec.previous(instant + _INSTANT)
        if fire is None or fire + self.of(spec, fire) <= instant:
            return instant
        return fire - _INSTANT  # the fire before it is due before it fires

    def _part(self, length: timedelta, of: str) -> timedelta:
        digest = hashlib.sha256(f"{self.seed}/{of}".encode()).digest()
        parts = max(length // _MILLISECOND, 1)
        return int.from_bytes(digest[:8], "big") % parts * _MILLISECOND


def delay_of(row: ScheduleRow) -> FireDelay | None:
    """Of a row with ``uuid``, ``jitter`` and ``spread_window`` (durations or seconds); None: its
    fires are due at once.
    """
    jitter, window = _length(row["jitter"]), _length(row["spread_window"])
    if not jitter and not window:
        return None
    return FireDelay(str(row["uuid"]), jitter, window)


def has_delay(row: Mapping[str, Any]) -> bool:
    """Whether `delay_of` may be asked, and says something."""
    return bool(row.get("jitter") or row.get("spread_window"))


def _length(value: timedelta | float | None) -> timedelta:
    if value is None or isinstance(value, timedelta):
        return value or _NOTHING
    return timedelta(seconds=value)
