"""Which instants a schedule owes, found the slow way: every second is tested against the fields.

Shares no code with the product. Knows only what the chaos workload writes: six or five fields of
numbers, lists, ranges and steps, and ``every Ns from INSTANT``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

_EVERY = re.compile(r"every (\d+)s from (\S+)")


def is_fire(spec: str, timezone: str, second: int) -> bool:
    """Whether the schedule names this second since the epoch."""
    every = _EVERY.fullmatch(spec)
    if every:
        anchor = int(datetime.fromisoformat(every[2].replace("Z", "+00:00")).timestamp())
        return (second - anchor) % int(every[1]) == 0
    fields = spec.split()
    if len(fields) == 5:
        fields = ["0", *fields]
    local = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(timezone))
    values = (
        local.second,
        local.minute,
        local.hour,
        local.day,
        local.month,
        local.isoweekday() % 7,
    )
    return all(value in members(text, value) for text, value in zip(fields, values, strict=True))


def members(text: str, value: int) -> frozenset[int]:
    """The numbers that a field names; for a star just the one that is asked for."""
    return frozenset({value}) if text == "*" else _members(text)


@lru_cache(maxsize=256)
def _members(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            low, high = 0, 59
        else:
            first, _, last = span.partition("-")
            low, high = int(first), int(last or first)
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)
