"""What the materializer decides for one schedule: which fires get runs, which are missed.

Pure: the same arguments give the same plan on every node.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.bounds import AN_INSTANT, EARLIEST
from pgcron_ha.spec.budget import MOST_STEPS, TooManySteps, spent
from pgcron_ha.spec.spec import ScheduleRow, Spec

# A missed range is counted exactly up to here; an every-second schedule after a weekend must be
# decided in milliseconds.
COUNTED_EXACTLY = 1000

# Each of them takes a search; for more, catch up all within a window.
MOST_LATEST = 100

# After this many steps a plan stops counting and leaves further fires to the next plan.
MOST_STEPS_OF_PLAN = 2 * MOST_STEPS

LONGEST_JITTER: Final = timedelta(days=1)

_MILLISECOND: Final = timedelta(milliseconds=1)

_KEPT: Final[dict[str, int | None]] = {
    **{"latest": 1, "all": None, "none": 0},
    **{f"latest {most}": most for most in range(2, MOST_LATEST + 1)},
}
"""How many of the newest late fires run at most, by catch-up policy; None: all."""


def catchup_policy(text: str) -> str:
    """``latest``, ``latest 5`` (2 to `MOST_LATEST`), ``all`` or ``none``, given in any case. Raises
    `InvalidInput`.
    """
    policy = " ".join(text.lower().split())
    if policy not in _KEPT:
        raise InvalidInput(
            f'"{text[:40]}" is not a catch-up policy',
            f"the policies are latest, latest 2 to latest {MOST_LATEST}, all and none",
            "leave it out for latest, which runs the newest late fire",
        )
    return policy


class MissedReason(StrEnum):
    """Why a late fire does not run."""

    LATEST = "catchup_latest"  # a newer late fire runs in its place
    WINDOW = "catchup_window"  # older than the catch-up window
    NONE = "catchup_none"  # the schedule does not catch up


@dataclass(frozen=True)
class Missed:
    """Fires from ``first`` to ``last`` (both are fires) that will not run.

    ``count`` is exact up to `COUNTED_EXACTLY`, and None when there are more, or when counting them
    takes too long.
    """

    first: datetime
    last: datetime
    count: int | None
    reason: MissedReason


@dataclass(frozen=True)
class Plan:
    """A decision on every fire after the old watermark up to and including ``watermark``.

    Each such fire is either one of ``fires`` (ascending) or lies in exactly one of ``missed``.
    ``next_fire`` is the first fire after ``watermark``; None: the schedule never fires again.
    """

    fires: list[datetime]
    missed: list[Missed]
    watermark: datetime
    next_fire: datetime | None
    is_cut: bool = False
    """Whether more fires took too long to find: they are for the next plan."""


def plan(
    spec: Spec,
    watermark: datetime,
    now: datetime,
    horizon_end: datetime,
    catchup: str,
    window: timedelta,
    grace: timedelta,
    limit: int,
    delay: timedelta = timedelta(0),
) -> Plan:
    """Decide the fires in (watermark, horizon_end], at most ``limit`` (>= 1) of them as runs.

    A fire is late when it is not after ``now - grace``. Of the late ones that are not older than
    ``window``, ``catchup`` keeps the newest, some, all, or none. Beyond ``limit``
    fires, or when more take too long to find, the new watermark is the last planned one; else it
    is ``horizon_end`` (never earlier than the old one). A fire is due ``delay`` later than it
    fires: its age counts from then. A long outage costs no more than a short one. Raises
    `InvalidInput` for a catch-up policy that does not exist.
    """
    end = max(watermark, horizon_end)
    late_since, old_since = _before(now, grace + delay), _before(now, window + delay)
    late_end = min(max(late_since, watermark), end)
    search = _Search(spec, spent())
    most = _KEPT[catchup_policy(catchup)]
    (planned, is_cut), missed = search.late(watermark, old_since, late_end, most, limit)
    if not is_cut:
        rest, is_cut = search.some(late_end, end, limit + 1 - len(planned))
        planned = planned + rest
    if is_cut or len(planned) > limit:
        end = planned[:limit][-1]
    return Plan(planned[:limit], missed, end, spec.next(end), is_cut)


_Some: TypeAlias = tuple[list[datetime], bool]
"""Fires, and whether there may be more, which took too long."""


@dataclass(frozen=True)
class _Search:
    """Finds the fires of a spec for a plan that began at so many steps; it stops early when the
    plan has used up its own.
    """

    spec: Spec
    began: int

    def is_over(self) -> bool:
        """Whether the plan has used up its steps."""
        return spent() - self.began > MOST_STEPS_OF_PLAN

    def some(self, after: datetime, until: datetime, limit: int) -> _Some:
        """The first ``limit`` fires in (after, until], at least one."""
        fires: list[datetime] = []
        if limit > 0:
            for fire in self.spec.fires(after, until):
                fires.append(fire)
                if len(fires) == limit:
                    break
                if self.is_over():
                    return fires, True
        return fires, False

    def late(
        self, watermark: datetime, old: datetime, end: datetime, most: int | None, limit: int
    ) -> tuple[_Some, list[Missed]]:
        """The late fires that are kept, no more than ``limit`` + 1, and the ranges of the others,
        of which none is enumerated. Fires before ``old`` are outside of the window.
        """
        none: _Some = [], False
        oldest = self.spec.next(watermark)
        if oldest is None or oldest > end:
            return none, []  # the usual case, without a look back
        newest = self.spec.previous(end + AN_INSTANT)
        if newest is None or newest <= watermark:
            return none, []
        if most == 0:
            return none, self._missed(watermark, newest, MissedReason.NONE)
        window_start = max(old, watermark)
        if newest < window_start:
            return none, self._missed(watermark, newest, MissedReason.WINDOW)
        too_old = self.spec.previous(window_start) if window_start > watermark else None
        missed: list[Missed] = []
        if too_old is not None:
            missed += self._missed(watermark, too_old, MissedReason.WINDOW)
            watermark = max(watermark, too_old)
        if most is None:
            return self.some(watermark, newest, limit + 1), missed
        kept = self._newest(newest, watermark, most)
        superseded = self.spec.previous(kept[0])
        if superseded is not None:
            missed += self._missed(watermark, superseded, MissedReason.LATEST)
        return (kept[: limit + 1], False), missed

    def _newest(self, newest: datetime, after: datetime, most: int) -> list[datetime]:
        """The fires up to ``newest`` (one of them) and after ``after``, ascending, at most
        ``most``; fewer when more take too long.
        """
        found = [newest]
        while len(found) < most and not self.is_over():
            earlier = self.spec.previous(found[0])
            if earlier is None or earlier <= after:
                break
            # The others mostly lie as close together as these two: looking back costs more.
            distance = (found[0] - earlier) * (most - len(found)) + AN_INSTANT
            since = max(after, _before(found[0], distance))
            others, is_cut = self.some(since, found[0] - AN_INSTANT, 2 * most)
            is_whole = not is_cut and len(others) < 2 * most
            found = [*others, *found] if is_whole else [earlier, *found]
        return found[-most:]

    def _missed(self, after: datetime, last: datetime, reason: MissedReason) -> list[Missed]:
        """The range of the fires in (after, last] (``last`` is a fire), or nothing if there is
        none; not counted when the search is over.
        """
        if last <= after:
            return []
        first = self.spec.next(after) or last
        count = COUNTED_EXACTLY + 1
        if not self.is_over():
            with suppress(TooManySteps):
                count = self.spec.count(after, last, COUNTED_EXACTLY)
        return [Missed(first, last, count if count <= COUNTED_EXACTLY else None, reason)]


def _before(moment: datetime, distance: timedelta) -> datetime:
    """``moment - distance``, but not before the calendar begins."""
    return EARLIEST if distance >= moment - EARLIEST else moment - distance


def delay_of(row: ScheduleRow) -> timedelta:
    """How much later than they fire its runs are due, so that not all fall on one second: whole
    milliseconds, fewer than the row's ``jitter`` (a duration, seconds or None) has.

    A hash of the schedule's uuid: the same at every fire, on every node and in previews.
    """
    jitter = row["jitter"]
    if not jitter:
        return timedelta(0)
    length = jitter if isinstance(jitter, timedelta) else timedelta(seconds=jitter)
    digest = hashlib.sha256(f"{row['uuid']}/jitter".encode()).digest()
    return int.from_bytes(digest[:8], "big") % max(length // _MILLISECOND, 1) * _MILLISECOND
