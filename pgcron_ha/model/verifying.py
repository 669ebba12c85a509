"""Whether a ledger says what the specs of its schedule ask for: each instant once, no other.

Pure: versions and rows go in, what breaks the rule comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pgcron_ha.model.spec import Spec

_INSTANT_EARLIER: Final = timedelta(microseconds=1)

UNDECIDED: Final = "an instant has no answer"
UNNAMED: Final = "a fire is no instant of the schedule"


class Timing(NamedTuple):
    """When a schedule fired after ``since`` and up to ``until``; None: nobody can tell."""

    since: datetime
    until: datetime
    spec: Spec | None
    owes: bool
    """False while paused or with a number of runs: what has no answer then is not asked for."""


class Range(NamedTuple):
    """Fires that were dropped together, both ends included."""

    first: datetime
    last: datetime


class Break(NamedTuple):
    """One instant for which the rule does not hold."""

    rule: str
    fire_at: datetime


@dataclass(frozen=True)
class Verdict:
    """What was looked at and found."""

    instants: int
    """How many instants the specs name."""
    reached: datetime
    """Up to where; earlier than asked when there were too many instants."""
    breaks: tuple[Break, ...]


def verify(
    timings: Sequence[Timing],
    entries: Mapping[datetime, bool],
    ranges: Sequence[Range],
    until: datetime,
    most: int,
) -> Verdict:
    """Compare the instants of `timings` (ascending, apart) up to `until` with the ledger.

    `entries` has each single fire, True if somebody put it there by hand and no spec has to name
    it. At most `most` instants are looked at.
    """
    breaks: list[Break] = []
    seen, reached = 0, until
    firsts = [one.first for one in ranges]
    for timing in timings:
        end = min(timing.until, until)
        if timing.spec is None or end <= timing.since:
            continue
        instants = timing.spec.between(timing.since, end, most - seen)
        seen += len(instants)
        if seen >= most and instants:
            end = reached = instants[-1]
        if timing.owes:
            breaks += [
                Break(UNDECIDED, instant)
                for instant in instants
                if instant not in entries and not _is_in(instant, ranges, firsts)
            ]
        breaks += _unnamed(timing, end, set(instants), entries)
        if seen >= most:
            break
    return Verdict(seen, reached, tuple(sorted(breaks, key=lambda found: found.fire_at)))


def _unnamed(
    timing: Timing, end: datetime, named: set[datetime], entries: Mapping[datetime, bool]
) -> Iterator[Break]:
    for fire, is_by_hand in entries.items():
        if not is_by_hand and timing.since < fire <= end and fire not in named:
            yield Break(UNNAMED, fire)


def _is_in(instant: datetime, ranges: Sequence[Range], firsts: Sequence[datetime]) -> bool:
    """Ranges are ascending and apart."""
    at = bisect_right(firsts, instant) - 1
    return at >= 0 and instant <= ranges[at].last
