"""What the materializer decides for one schedule: which fires become runs, which are missed.

Pure: the same arguments give the same plan on every node.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.cron import EARLIEST
from pgcron_ha.model.spec import Spec

# A missed range is counted exactly up to here; an every-second schedule after a weekend must be
# decided in milliseconds.
COUNTED_EXACTLY = 1000

_INSTANT_LATER = timedelta(microseconds=1)


class CatchUp(StrEnum):
    """What becomes of late fires: only the newest runs, or none."""

    LATEST = "latest"
    NONE = "none"

    @classmethod
    def parse(cls, text: str) -> CatchUp:
        """The policy of that name, any case; raises `InvalidInput`."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise InvalidInput(
                f'"{text[:40]}" is not a catch-up policy',
                "the policies are latest and none",
                "leave it out for latest",
            ) from None


class MissedReason(StrEnum):
    """Why a late fire does not run."""

    LATEST = "catchup_latest"  # a newer late fire runs in its place
    WINDOW = "catchup_window"  # older than the catch-up window
    NONE = "catchup_none"  # the schedule does not catch up


@dataclass(frozen=True)
class Missed:
    """Fires from ``first`` to ``last`` (both are fires) that will not run.

    ``count`` is exact up to `COUNTED_EXACTLY`, and None when there are more.
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


def plan(
    spec: Spec,
    watermark: datetime,
    now: datetime,
    horizon_end: datetime,
    catchup: CatchUp | str,
    window: timedelta,
    grace: timedelta,
    limit: int,
) -> Plan:
    """Decide the fires in (watermark, horizon_end], at most ``limit`` (>= 1) of them as runs.

    A fire is late when it is not after ``now - grace``. Of the late ones `CatchUp.LATEST` keeps the
    newest unless it is older than ``window``; `CatchUp.NONE` keeps none. With more than ``limit``
    fires the new watermark is the last planned one, else it is ``horizon_end`` (never earlier than
    the old one). A long outage costs no more than a short one. Raises `InvalidInput` for a catch-up
    policy that does not exist.
    """
    if limit < 1:
        raise ValueError("a plan that may not plan a fire would never advance")
    end = max(watermark, horizon_end)
    late_end = min(max(_before(now, grace), watermark), end)
    kept, missed = _late(spec, watermark, now, late_end, CatchUp.parse(catchup), window)
    planned = kept + spec.between(late_end, end, limit + 1 - len(kept))
    if len(planned) > limit:
        end = planned[limit - 1]
    fires = planned[:limit]
    return Plan(fires, missed, end, spec.next(end))


def _late(
    spec: Spec,
    watermark: datetime,
    now: datetime,
    late_end: datetime,
    catchup: CatchUp,
    window: timedelta,
) -> tuple[list[datetime], list[Missed]]:
    """The late fire that is kept, if any, and the ranges of the others; none is enumerated."""
    oldest = spec.next(watermark)
    if oldest is None or oldest > late_end:
        return [], []  # the usual case, without a look back
    newest = spec.previous(late_end + _INSTANT_LATER)
    if newest is None or newest <= watermark:
        return [], []
    if catchup is CatchUp.NONE:
        return [], _missed(spec, watermark, newest, MissedReason.NONE)
    window_start = max(_before(now, window), watermark)
    if newest < window_start:
        return [], _missed(spec, watermark, newest, MissedReason.WINDOW)
    too_old = spec.previous(window_start)
    superseded = spec.previous(newest)
    missed: list[Missed] = []
    if too_old is not None:
        missed += _missed(spec, watermark, too_old, MissedReason.WINDOW)
        watermark = max(watermark, too_old)
    if superseded is not None:
        missed += _missed(spec, watermark, superseded, MissedReason.LATEST)
    return [newest], missed


def _missed(spec: Spec, after: datetime, last: datetime, reason: MissedReason) -> list[Missed]:
    """The range of the fires in (after, last] (``last`` is a fire), or nothing if there is none."""
    if last <= after:
        return []
    first = spec.next(after) or last
    count = spec.count(after, last, COUNTED_EXACTLY)
    return [Missed(first, last, count if count <= COUNTED_EXACTLY else None, reason)]


def _before(moment: datetime, distance: timedelta) -> datetime:
    """``moment - distance``, but not before the calendar begins."""
    return EARLIEST if distance >= moment - EARLIEST else moment - distance
