"""Fifty schedules of every catch-up policy, and what each of them owes after an outage, by
arithmetic of its own: no fire-time engine of the product is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo

OUTAGE: Final = timedelta(days=3)
GRACE: Final = timedelta(seconds=2)
"""A fire that is older than this is late."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)

Instants = Callable[[datetime, datetime], Iterator[datetime]]
"""Those of a schedule with after < instant <= until, ascending."""


def _multiples(period: timedelta, phase: timedelta = timedelta(0)) -> Instants:
    def instants(after: datetime, until: datetime) -> Iterator[datetime]:
        fire = _EPOCH + phase + ((after - _EPOCH - phase) // period + 1) * period
        while fire <= until:
            yield fire
            fire += period

    return instants


def _daily_in_berlin(after: datetime, until: datetime) -> Iterator[datetime]:
    zone = ZoneInfo("Europe/Berlin")
    day = (after - _DAY).astimezone(zone).date()
    while True:
        fire = datetime(day.year, day.month, day.day, 3, 17, tzinfo=zone).astimezone(UTC)
        if fire > until:
            return
        if fire > after:
            yield fire
        day += _DAY


def _once(at: datetime) -> Instants:
    return lambda after, until: iter([at] if after < at <= until else [])


@dataclass(frozen=True)
class Owed:
    """What must be in the ledger of one schedule: late fires that run, and how many are missed
    for which reason.
    """

    runs: tuple[datetime, ...]
    missed: dict[str, int]


@dataclass(frozen=True)
class Watched:
    """One schedule: what is put, and when it fires."""

    name: str
    spec: str
    timezone: str
    catchup: str
    window: timedelta
    instants: Instants

    @property
    def overlap(self) -> str:
        """Several late fires may only run beside each other."""
        return "skip" if self.catchup in ("latest", "none") else "allow"

    def owed(self, after: datetime, now: datetime) -> Owed:
        """Of the fires after `after` that are late at `now`."""
        late = list(self.instants(after, now - GRACE))
        young = [fire for fire in late if fire >= now - self.window]
        too_old = len(late) - len(young)
        if self.catchup == "none":
            return Owed((), {"catchup_none": len(late)} if late else {})
        kept = len(young)
        if self.catchup != "all":
            kept = min(kept, int(self.catchup.partition(" ")[2] or 1))
        missed = {"catchup_window": too_old, "catchup_latest": len(young) - kept}
        runs = tuple(young[len(young) - kept :])
        return Owed(runs, {reason: count for reason, count in missed.items() if count})


def watched(begin: datetime) -> list[Watched]:
    """The fifty; the outage begins at `begin`."""
    timings: list[tuple[str, str, Instants, tuple[timedelta, timedelta]]] = [
        ("* * * * * *", "UTC", _multiples(_SECOND), (timedelta(minutes=5), _HOUR)),
        ("*/10 * * * *", "UTC", _multiples(timedelta(minutes=10)), (_HOUR, 2 * _DAY)),
        ("every 7m", "UTC", _multiples(timedelta(minutes=7)), (_HOUR, _DAY)),
        ("30 * * * *", "UTC", _multiples(_HOUR, _HOUR / 2), (_HOUR, 4 * _DAY)),
        ("17 3 * * *", "Europe/Berlin", _daily_in_berlin, (_HOUR, 30 * _DAY)),
        ("0 0 * * *\n30 12 * * *", "UTC", _noon_and_midnight, (6 * _HOUR, 2 * _DAY)),
    ]
    policies = ("latest", "latest 5", "all", "none")
    found = [
        Watched(f"{spec.splitlines()[0]} {policy} {window}", spec, zone, policy, window, instants)
        for (spec, zone, instants, windows), policy in product(timings, policies)
        for window in windows
    ]
    at = begin + _DAY
    for policy, window in (("latest", 3 * _DAY), ("latest", _HOUR)):
        spec = f"at {at:%Y-%m-%dT%H:%M:%SZ}"
        found.append(Watched(f"{spec} {window}", spec, "UTC", policy, window, _once(at)))
    return found


def _noon_and_midnight(after: datetime, until: datetime) -> Iterator[datetime]:
    both = [
        *_multiples(_DAY)(after, until),
        *_multiples(_DAY, timedelta(hours=12, minutes=30))(after, until),
    ]
    return iter(sorted(both))
