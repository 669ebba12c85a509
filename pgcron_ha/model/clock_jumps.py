"""What new rules of a zone do to the fires about the moment at which a schedule takes them.

When rules come late, the clocks by the new ones differ from those by the old ones already. For the
schedule they jump then: forward, and the fires of the wall times between are late; or back, and
those have been decided already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from pgcron_ha.model.spec import Spec
from pgcron_ha.model.zones import load_zone, wall_clock

MOST_INSTANTS: Final = 20_000
"""Every second for five hours; of who fires more often nothing moves: every second stays one."""

_SLACK: Final = timedelta(minutes=1)
"""The moment itself is chosen later, by who holds the lock."""
_NOTHING: Final = timedelta(0)


@dataclass(frozen=True)
class ClockJump:
    """``shift`` is by how much the clocks show more than they did. Fires by the new rules:
    ``earlier`` would have come ``shift`` later, ``later`` came -``shift`` before.
    """

    shift: timedelta
    earlier: tuple[datetime, ...]
    later: tuple[datetime, ...]


def clock_jump(spec: Spec, old: ZoneInfo, moment: datetime) -> ClockJump | None:
    """Of a schedule whose spec has the new rules and takes them at ``moment`` or shortly after it;
    None: its clocks are the same then. A fire that both rules name has not moved.
    """
    at = moment.astimezone(UTC).replace(tzinfo=None)
    shift = wall_clock(load_zone(spec.timezone), at) - wall_clock(old, at)
    if shift == _NOTHING:
        return None
    low, high = min(moment - shift, moment), max(moment - shift, moment) + _SLACK
    named = spec.between(low - abs(shift), high + abs(shift), MOST_INSTANTS + 1)
    if len(named) > MOST_INSTANTS:
        return ClockJump(shift, (), ())
    # By the old rules the clocks showed at `fire` what they show at `fire - shift` by the new ones.
    known = set(named)
    moved = tuple(fire for fire in named if low < fire <= high and fire - shift not in known)
    return ClockJump(shift, moved, ()) if shift > _NOTHING else ClockJump(shift, (), moved)
