"""Time zones: strict IANA names, and the instants at which a zone changes its offset.

Zones are read from the installed ``tzdata`` package, never from the host: nodes whose packages are
of one version agree on every fire time.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module, resources
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from pgcron_ha.errors import UnknownZone
from pgcron_ha.spec.bounds import A_SECOND, naive_utc

TZDATA: Final[str] = getattr(import_module("tzdata"), "IANA_VERSION", "0")
"""The version of the installed package, as ``2026f``. Text order is the order in time."""

# The longest name has 32 characters; longer text is not worth a search for neighbours.
MOST_CHARACTERS = 64
# Two changes of one zone are further apart, so no pair of them hides between two probes.
PROBE = timedelta(hours=18)
# All zones, each with a dozen years: what a cluster with schedules everywhere needs.
CACHED_ZONE_YEARS = 8192

# No data lists changes after 2087 (Morocco's); from then on they follow one rule, by days of weeks.
LAST_LISTED_YEAR = 2128

# More than the largest jump of any zone (24 h), and less than half of what lies between two changes
# of one (six days).
NEAR = timedelta(days=2)


class Change(NamedTuple):
    """At the instant ``at`` (naive UTC) the offset goes from ``before`` to ``after``."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def size(self) -> timedelta:
        """How much wall time is skipped (positive) or repeated (negative)."""
        return self.after - self.before


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All names that `load_zone` takes."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(listed) - {"Factory"}  # tzdata's "no zone was configured"


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, spelled exactly; raises `UnknownZone` with the nearest names."""
    if name not in zone_names():
        raise _unknown(name)
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


def wall_clock(zone: ZoneInfo, instant: datetime) -> datetime:
    """What the zone's clocks show (naive) at a naive UTC instant."""
    return zone.fromutc(instant.replace(tzinfo=zone)).replace(tzinfo=None)


def wall_time(name: str, instant: datetime) -> datetime:
    """What the zone's clocks show (naive) at an aware instant."""
    return wall_clock(load_zone(name), naive_utc(instant))


def instants_of(name: str, wall: datetime) -> tuple[datetime, ...]:
    """The instants (naive UTC, ascending) at which the zone's clocks show ``wall``: one, two where
    it is repeated, none where it is skipped.
    """
    zone = load_zone(name)
    passes = {_as_utc(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)}
    return tuple(sorted(found for found in passes if wall_clock(zone, found) == wall))


def instant_at(name: str, wall: datetime) -> datetime:
    """The first instant (naive UTC) when the zone's clocks show ``wall``, or have skipped it."""
    found = instants_of(name, wall)
    return found[0] if found else skipping_change(name, wall).at


def skipping_change(name: str, wall: datetime) -> Change:
    """The change that skips ``wall``, which no clock of the zone shows."""
    guess = _as_utc(wall.replace(tzinfo=load_zone(name)))
    change = first_change(name, guess - NEAR, guess + NEAR)
    assert change is not None, f"{wall} is not skipped in {name}"
    return change


def first_change(name: str, since: datetime, until: datetime) -> Change | None:
    """The first change of the zone with since < at <= until (naive UTC), or None."""
    for year in range(since.year, until.year + 1):
        for change in changes_of_year(name, year):
            if change.at > since:
                return change if change.at <= until else None
    return None


@lru_cache(maxsize=CACHED_ZONE_YEARS)
def changes_of_year(name: str, year: int) -> tuple[Change, ...]:
    """The zone's changes after the year's first instant (UTC), up to that of the next year."""
    if year > LAST_LISTED_YEAR:  # as in a listed one with the same days of the week
        shape = monthrange(year, 1)[0], isleap(year)
        years = range(LAST_LISTED_YEAR - 27, LAST_LISTED_YEAR + 1)
        alike = next(one for one in years if (monthrange(one, 1)[0], isleap(one)) == shape)
        later = datetime(year, 1, 1) - datetime(alike, 1, 1)
        return tuple(one._replace(at=one.at + later) for one in changes_of_year(name, alike))
    zone = load_zone(name)
    # Naive UTC in the zone's clothes: what `fromutc` takes; differences within one zone are naive.
    low, end = (datetime(begun, 1, 1, tzinfo=zone) for begun in (year, year + 1))
    before = zone.fromutc(low) - low
    changes: list[Change] = []
    while low < end:
        high = min(low + PROBE, end)
        after = zone.fromutc(high) - high
        if after != before:
            at = _moment_of_change(zone, low, high, before)
            changes.append(Change(at.replace(tzinfo=None), before, after))
        low, before = high, after
    return tuple(changes)


def _as_utc(aware: datetime) -> datetime:
    return aware.astimezone(UTC).replace(tzinfo=None)


def _moment_of_change(zone: ZoneInfo, low: datetime, high: datetime, before: timedelta) -> datetime:
    """The first second with another offset than ``low``."""

    def is_changed(second: int) -> bool:
        at = low + second * A_SECOND
        return zone.fromutc(at) - at != before

    return low + bisect_left(range((high - low) // A_SECOND), True, key=is_changed) * A_SECOND


def _unknown(name: str) -> UnknownZone:
    shown = name if len(name) <= MOST_CHARACTERS else f"{name[:MOST_CHARACTERS]}…"
    by_folded = {known.casefold(): known for known in sorted(zone_names())}
    by_city = {folded.rpartition("/")[2]: known for folded, known in by_folded.items()}
    wanted = shown.strip().casefold().replace(" ", "_")
    alike = [by_folded[one] for one in get_close_matches(wanted, by_folded, n=2, cutoff=0.7)]
    city = wanted.rpartition("/")[2]
    alike += [by_city[one] for one in get_close_matches(city, by_city, n=2, cutoff=0.8)]
    nearest = " or ".join(list(dict.fromkeys(alike))[:3])
    return UnknownZone(
        f'"{shown}" is not a time zone',
        "zones are IANA names, spelled exactly",
        f"did you mean {nearest}?" if nearest else 'for example "Europe/Berlin"',
    )
