"""``jitter``: how much later than they fire a schedule's runs are due, so that not all fall on one
second.

The delay is a hash of the schedule's uuid: the same at every fire, on every node and in previews.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from pgcron_ha.spec.schedule_spec import ScheduleRow

LONGEST: Final = timedelta(days=1)

_MILLISECOND: Final = timedelta(milliseconds=1)


def delay_of(row: ScheduleRow) -> timedelta:
    """Whole milliseconds, fewer than the row's ``jitter`` (a duration, seconds or None) has."""
    jitter = row["jitter"]
    if not jitter:
        return timedelta(0)
    length = jitter if isinstance(jitter, timedelta) else timedelta(seconds=jitter)
    digest = hashlib.sha256(f"{row['uuid']}/jitter".encode()).digest()
    return int.from_bytes(digest[:8], "big") % max(length // _MILLISECOND, 1) * _MILLISECOND
