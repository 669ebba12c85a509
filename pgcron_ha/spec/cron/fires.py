"""When a cron expression fires: instants, in a zone, under a policy for changes of the clock.

`next_until` is the only definition: looking back searches with it and can neither invent nor lose
an instant. Between two changes of its zone's offset a schedule is plain wall time; only the two
days around "now" and around the next named wall time can hold a change that matters, since no clock
ever jumped by more than a day and a few hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.bounds import A_SECOND, naive_utc
from pgcron_ha.spec.budget import spend
from pgcron_ha.spec.cron.expression import WallTimes
from pgcron_ha.spec.zones import NEAR, Change, first_change, load_zone, wall_clock

# vixie cron corrects for jumps of the clock up to three hours.
LARGEST_CORRECTED_JUMP = timedelta(hours=3)
# An expression whose wall times all fall into gaps ("30 2 * 3 sun#2" in New York under robfig) is
# given up after 16 years; a turn passes one change of the clock or one stretch without a match.
MOST_TURNS = 32

_NEVER = datetime.max


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


def next_until(
    named: WallTimes, zone: str, after: datetime, dst: DstPolicy, until: datetime
) -> datetime | None:
    """The first fire in (after, until] (aware; the result is UTC), or None: there is no need to
    look further.

    Raises `UnknownZone`. The answer is the same for every ``after`` from one fire up to the next.
    """
    since = naive_utc(after).replace(microsecond=0)
    found = _search(named, zone, since, dst, naive_utc(until))
    fire = None if found is None else found.replace(tzinfo=UTC)
    return None if fire is None or fire > until else fire


def _search(
    named: WallTimes, name: str, since: datetime, dst: DstPolicy, until: datetime
) -> datetime | None:
    """A fire that is the first after ``since``, or that is later than ``until``, or None.

    In naive UTC, segment by segment of the zone: in each, instant = wall time - offset.
    """
    zone = load_zone(name)
    fixed = dst is not DstPolicy.ROBFIG and not named.wildcard
    wall = wall_clock(zone, since)
    offset = wall - since
    if fixed:
        wall = _past_repeated_time(name, wall, since, dst)
    for _ in range(MOST_TURNS):
        spend()
        if since > until:
            return None
        match = named.wall_after(wall, until + offset + NEAR)
        fire = _NEVER if match is None else match - offset
        change = first_change(name, since, min(fire, since + NEAR))
        if change is None:
            if match is None:  # no clock repeats an earlier wall time
                return None
            if fire <= since + NEAR:
                return fire
            # Nothing can fire, whatever the clock does, until near the match.
            since = fire - NEAR
            wall = wall_clock(zone, since)
            offset = wall - since
            continue
        is_skipped = match is not None and match < change.at + change.after
        if fixed and is_skipped and is_run_late(change, dst):
            return change.at
        since, offset = change.at, change.after
        wall = since + offset - A_SECOND  # the change's own wall time is still to come
        if fixed and is_first_pass_only(-change.size, dst):
            wall = since + change.before - A_SECOND
    return None


def _past_repeated_time(name: str, wall: datetime, since: datetime, dst: DstPolicy) -> datetime:
    """``wall``, or the last repeated wall time when ``since`` lies in the second pass."""
    change = first_change(name, since - NEAR, since)
    if change is None or not is_first_pass_only(-change.size, dst):
        return wall
    return max(wall, change.at + change.before - A_SECOND)


def is_run_late(change: Change, dst: DstPolicy) -> bool:
    """Whether a fixed job of a wall time that the change skips runs late, at the change."""
    return dst is DstPolicy.VIXIE and timedelta(0) < change.size <= LARGEST_CORRECTED_JUMP


def is_first_pass_only(repeated: timedelta, dst: DstPolicy) -> bool:
    """Whether a fixed job ignores the second pass of wall times that are repeated so long later."""
    if repeated <= timedelta(0):
        return False
    return dst is DstPolicy.SKIP or repeated <= LARGEST_CORRECTED_JUMP
