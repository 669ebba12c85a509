"""When a cron expression fires: instants, in a zone, under a policy for changes of the clock.

`next_fire` is the only definition. `fires_between` repeats it and `previous_fire` searches with it,
so looking back can neither invent nor lose an instant. Between two changes of its zone's offset a
schedule is plain wall time; only the two days around "now" and around the next named wall time can
hold a change that matters, since no clock ever jumped by more than a day and a few hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.bounds import LATEST, last_before, naive_utc
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.expression import CronExpression
from pgcron_ha.spec.zones import Change, first_change, last_change, load_zone, wall_clock

# vixie cron corrects for jumps of the clock up to three hours.
LARGEST_CORRECTED_JUMP = timedelta(hours=3)
# An expression whose wall times all fall into gaps ("30 2 * 3 sun#2" in New York under robfig) is
# given up after 16 years; a turn passes one change of the clock or one stretch without a match.
MOST_TURNS = 32

_NEAR = timedelta(days=2)  # more than the largest jump of any zone (24 h)
_NEVER = datetime.max
_SECOND = timedelta(seconds=1)


class DstPolicy(StrEnum):
    """What a fixed job does when the clock is changed; wildcard jobs follow the wall clock.

    A job is *wildcard* when its second, minute or hour field begins with ``*``, else *fixed*.

    - ``vixie``: a wall time that is skipped fires at the first instant after the gap, one that is
      repeated fires on the first pass; for jumps of at most three hours, as Debian's cron.
    - ``robfig``: the wall clock alone, as Kubernetes: skipped times are lost, repeated ones fire
      twice.
    - ``skip``: skipped times are lost, repeated ones fire on the first pass, as AWS.
    """

    VIXIE = "vixie"
    ROBFIG = "robfig"
    SKIP = "skip"

    @classmethod
    def parse(cls, text: str) -> DstPolicy:
        """The policy of that name, any case; ``kubernetes`` is robfig. Raises `InvalidInput`."""
        name = text.strip().lower()
        try:
            return cls.ROBFIG if name == "kubernetes" else cls(name)
        except ValueError:
            raise InvalidInput(
                f'"{text[:40]}" is not a DST policy',
                "the policies are vixie, robfig (alias kubernetes) and skip",
                "leave it out for vixie, which runs each daily job once on every day",
            ) from None


class NamedTimes(Protocol):
    """Wall times that a line names."""

    @property
    def wildcard(self) -> bool:
        """Whether they follow the wall clock, whatever the policy."""

    def wall_after(self, wall: datetime, until: datetime) -> datetime | None:
        """The first of them later than ``wall`` (all naive), or None; any later than ``until`` may
        be None.
        """


def next_fire(
    expression: CronExpression, zone: str, after: datetime, dst: DstPolicy = DstPolicy.VIXIE
) -> datetime | None:
    """The first fire later than ``after`` (aware; the result is UTC), or None: never again.

    Raises `UnknownZone`. The answer is the same for every ``after`` from one fire up to the next.
    """
    return next_until(expression, zone, after, dst, LATEST)


def previous_fire(
    expression: CronExpression, zone: str, before: datetime, dst: DstPolicy = DstPolicy.VIXIE
) -> datetime | None:
    """The last fire earlier than ``before``, or None: never before."""
    return last_before(lambda after, until: next_until(expression, zone, after, dst, until), before)


def fires_between(
    expression: CronExpression,
    zone: str,
    after: datetime,
    until: datetime,
    dst: DstPolicy,
    limit: int,
) -> list[datetime]:
    """The first ``limit`` fires with after < fire <= until, ascending."""
    fires: list[datetime] = []
    fire = next_fire(expression, zone, after, dst)
    while fire is not None and fire <= until and len(fires) < limit:
        fires.append(fire)
        fire = next_fire(expression, zone, fire, dst)
    return fires


def count_fires(
    expression: CronExpression,
    zone: str,
    after: datetime,
    until: datetime,
    dst: DstPolicy,
    most: int,
) -> int:
    """How many fires with after < fire <= until: exact up to ``most``, else more than ``most``.

    Not enumerated while the clock is not changed, so that a long outage is counted at once.
    """
    start, end = naive_utc(after), naive_utc(until)
    if start >= end:
        return 0
    if first_change(zone, start - _NEAR, end) is not None:
        return len(fires_between(expression, zone, after, until, dst, most + 1))
    clock = load_zone(zone)
    return expression.count_between(wall_clock(clock, start), wall_clock(clock, end), most)


def next_until(
    expression: NamedTimes, zone: str, after: datetime, dst: DstPolicy, until: datetime
) -> datetime | None:
    """The first fire in (after, until], or None: there is no need to look further."""
    since = naive_utc(after).replace(microsecond=0)
    found = _search(expression, zone, since, dst, naive_utc(until))
    fire = None if found is None else found.replace(tzinfo=UTC)
    return None if fire is None or fire > until else fire


def _search(
    expression: NamedTimes, name: str, since: datetime, dst: DstPolicy, until: datetime
) -> datetime | None:
    """A fire that is the first after ``since``, or that is later than ``until``, or None.

    In naive UTC, segment by segment of the zone: in each, instant = wall time - offset.
    """
    zone = load_zone(name)
    fixed = dst is not DstPolicy.ROBFIG and not expression.wildcard
    wall = wall_clock(zone, since)
    offset = wall - since
    if fixed:
        wall = _past_repeated_time(name, wall, since, dst)
    for _ in range(MOST_TURNS):
        spend()
        if since > until:
            return None
        match = expression.wall_after(wall, until + offset + _NEAR)
        fire = _NEVER if match is None else match - offset
        change = first_change(name, since, min(fire, since + _NEAR))
        if change is None and match is None:  # no clock repeats an earlier wall time
            return None
        if change is None and fire <= since + _NEAR:
            return fire
        if change is None:  # nothing can fire, whatever the clock does, until near the match
            since = fire - _NEAR
            wall = wall_clock(zone, since)
            offset = wall - since
            continue
        is_skipped = match is not None and match < change.at + change.after
        if fixed and is_skipped and is_run_late(change, dst):
            return change.at
        since, offset = change.at, change.after
        wall = since + offset - _SECOND  # the change's own wall time is still to come
        if fixed and is_first_pass_only(-change.size, dst):
            wall = since + change.before - _SECOND
    return None


def _past_repeated_time(name: str, wall: datetime, since: datetime, dst: DstPolicy) -> datetime:
    """``wall``, or the last repeated wall time when ``since`` lies in the second pass."""
    change = last_change(name, since - _NEAR, since)
    if change is None or not is_first_pass_only(-change.size, dst):
        return wall
    return max(wall, change.at + change.before - _SECOND)


def is_run_late(change: Change, dst: DstPolicy) -> bool:
    """Whether a fixed job of a wall time that the change skips runs late, at the change."""
    return dst is DstPolicy.VIXIE and timedelta(0) < change.size <= LARGEST_CORRECTED_JUMP


def is_first_pass_only(repeated: timedelta, dst: DstPolicy) -> bool:
    """Whether a fixed job ignores the second pass of wall times that are repeated so long later."""
    if repeated <= timedelta(0):
        return False
    return dst is DstPolicy.SKIP or repeated <= LARGEST_CORRECTED_JUMP
