"""Checks a ledger against the specs of its schedule: it has each instant once, and no other.

Pure: versions and rows go in, what breaks the rule comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple

from pgcron_ha.spec.spec import Spec

UNDECIDED: Final = "an instant has no answer"
UNNAMED: Final = "a fire is no instant of the schedule"


class Timing(NamedTuple):
    """When a schedule fired after ``since`` and up to ``until``; None: not known."""

    since: datetime
    until: datetime
    spec: Spec | None


class Break(NamedTuple):
    """One instant for which the rule does not hold."""

    rule: str
    fire_at: datetime


@dataclass(frozen=True)
class Verdict:
    """What was checked and found."""

    instants: int
    """How many instants the specs name."""
    reached: datetime
    """Up to where; earlier than requested when there were too many instants."""
    breaks: tuple[Break, ...]


def verify(
    timings: Sequence[Timing],
    fires: Mapping[datetime, bool],
    ranges: Sequence[tuple[datetime, datetime]],
    until: datetime,
    most: int,
) -> Verdict:
    """Compare the instants of `timings` (ascending, apart) up to `until` with the ledger: single
    `fires`, each with whether somebody put it there, so that no spec has to name it; and `ranges`
    of fires that were dropped together, both ends included. At most `most` instants are looked at.
    """
    breaks: list[Break] = []
    seen, reached = 0, until
    for timing in timings:
        end = min(timing.until, until)
        if timing.spec is None or end <= timing.since:
            continue
        instants = timing.spec.between(timing.since, end, most - seen)
        seen += len(instants)
        if seen >= most and instants:
            end = reached = instants[-1]
        breaks += [
            Break(UNDECIDED, instant)
            for instant in instants
            if instant not in fires and not _is_in(instant, ranges)
        ]
        named = set(instants)
        breaks += [
            Break(UNNAMED, fire)
            for fire, is_by_hand in fires.items()
            if not is_by_hand and timing.since < fire <= end and fire not in named
        ]
        if seen >= most:
            break
    return Verdict(seen, reached, tuple(sorted(breaks, key=lambda found: found.fire_at)))


def _is_in(instant: datetime, ranges: Sequence[tuple[datetime, datetime]]) -> bool:
    """Ranges are ascending and apart."""
    at = bisect_right(ranges, instant, key=itemgetter(0)) - 1
    return at >= 0 and instant <= ranges[at][1]
