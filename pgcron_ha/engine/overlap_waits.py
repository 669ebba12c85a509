"""Runs that wait for a slot of their schedule: when it is worth letting one go.

They are put aside by whoever decides their lane, and let go by whoever notices that a run is over:
the node that executed it at once, the others within a poll interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from pgcron_ha.db.link import Link

_LANES: Final = 200
"""Schedules looked at by one statement; a longer walk is taken in several."""

_AT_ONCE: Final = float("-inf")


class OverlapWaits:
    """The statement, how far its walk over the schedules has come, and when to walk again."""

    def __init__(self, link: Link, interval: float) -> None:
        """`interval` in seconds: how long an end elsewhere may go unnoticed."""
        self._link = link
        self._interval = interval
        self._mine: set[int] = set()
        self._beyond = 0
        self._has_news = False
        self.look_at = _AT_ONCE
        """When another look is worth it while runs wait (`time.monotonic`)."""

    def expect(self, runs: Iterable[int]) -> None:
        """The ends of these, which execute here, may let others go."""
        self._mine.update(runs)

    def settled(self, holds: Callable[[int], bool]) -> bool:
        """The database knows of ends; `holds` says whether a run is still held here. Whether one of
        those is over that may have kept others waiting.
        """
        over = [run for run in self._mine if not holds(run)]
        self._mine.difference_update(over)
        self._has_news |= bool(over)
        return bool(over)

    def are_due(self, do_wait: bool) -> bool:
        """Whether to look; `do_wait`: as far as is known, runs wait."""
        return self._has_news or (do_wait and self.look_at <= monotonic())

    async def let_go(self) -> int:
        """How many runs may be claimed now, or ended since a newer one takes their place."""
        self._has_news = False
        [row] = await self._link.rows("let_waiting_go", beyond=self._beyond, most=_LANES)
        self._beyond = row["ended_at"] or 0
        self.look_at = _AT_ONCE if self._beyond else monotonic() + self._interval
        let_go: int = row["let_go"]
        return let_go
