"""Checks a ledger against the specs of its schedule: it has each instant once, and no other.

Pure: versions and rows go in, what breaks the rule comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pgcron_ha.spec.spec import Spec

_INSTANT_EARLIER: Final = timedelta(microseconds=1)

UNDECIDED: Final = "an instant has no answer"
UNNAMED: Final = "a fire is no instant of the schedule"
RAN_IN_PAUSE: Final = "a fire of a pause became a run"
NOT_PAUSED: Final = "a range is recorded as paused, and the schedule was not"
TOO_MANY: Final = "a schedule had more runs than max_runs"
TOO_FEW: Final = "a schedule ended before it had max_runs"


class Timing(NamedTuple):
    """When a schedule fired after ``since`` and up to ``until``; None: not known."""

    since: datetime
    until: datetime
    spec: Spec | None


class Range(NamedTuple):
    """Fires that were dropped together, both ends included."""

    first: datetime
    last: datetime
    is_paused: bool = False
    """Whether a pause is why."""


class Entry(NamedTuple):
    """A single fire of the ledger."""

    is_by_hand: bool
    """Somebody put it there, and no spec has to name it."""
    made_at: datetime | None = None
    """When its run was made, if it counts as a run of the schedule."""


class Pause(NamedTuple):
    """It did not fire after ``began`` and up to ``until``."""

    began: datetime
    until: datetime
    resumed: datetime
    """From ``until`` on it owes its fires again; undecided ones were recorded at this instant."""
    drops: bool
    """Nothing that fired in it may run."""


class Bound(NamedTuple):
    """It has ended, or will, after ``most`` runs that were made since."""

    since: datetime
    runs: int
    most: int
    """The highest that the number was."""
    is_over: bool
    """It has ended for that reason, as its cursor says."""


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
    entries: Mapping[datetime, Entry],
    ranges: Sequence[Range],
    until: datetime,
    most: int,
    pauses: Sequence[Pause] = (),
    bound: Bound | None = None,
) -> Verdict:
    """Compare the instants of `timings` (ascending, apart) up to `until` with the ledger, and what
    it says with the pauses and the bound. At most `most` instants are looked at.
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
        breaks += [
            Break(UNDECIDED, instant)
            for instant in instants
            if instant not in entries and not _is_in(instant, ranges, firsts)
        ]
        named = set(instants)
        breaks += [
            Break(UNNAMED, fire)
            for fire, entry in entries.items()
            if not entry.is_by_hand and timing.since < fire <= end and fire not in named
        ]
        if seen >= most:
            break
    breaks += _unpaused(timings, entries, ranges, pauses)
    if bound is not None:
        breaks += _unbound(entries, bound, until)
    return Verdict(seen, reached, tuple(sorted(breaks, key=lambda found: found.fire_at)))


def _unpaused(
    timings: Sequence[Timing],
    entries: Mapping[datetime, Entry],
    ranges: Sequence[Range],
    pauses: Sequence[Pause],
) -> Iterator[Break]:
    """Fires that ran in a pause, and ranges recorded as paused outside of one."""
    dropping = [pause for pause in pauses if pause.drops]
    for fire, entry in entries.items():
        ran = entry.made_at is not None and not entry.is_by_hand
        if ran and any(pause.began < fire <= pause.until for pause in dropping):
            yield Break(RAN_IN_PAUSE, fire)
    for reported in ranges:
        is_known = reported.is_paused and timings and reported.last > timings[0].since
        if is_known and not any(one.began <= reported.last <= one.resumed for one in pauses):
            yield Break(NOT_PAUSED, reported.first)


def _unbound(entries: Mapping[datetime, Entry], bound: Bound, until: datetime) -> Iterator[Break]:
    made = sorted((entry.made_at, fire) for fire, entry in entries.items() if entry.made_at)
    later = [fire for at, fire in made if at > bound.since]
    yield from (Break(TOO_MANY, fire) for fire in later[bound.most :])
    if bound.is_over and sum(at >= bound.since for at, _ in made) < bound.runs:
        yield Break(TOO_FEW, until)


def _is_in(instant: datetime, ranges: Sequence[Range], firsts: Sequence[datetime]) -> bool:
    """Ranges are ascending and apart."""
    at = bisect_right(firsts, instant) - 1
    return at >= 0 and instant <= ranges[at].last
