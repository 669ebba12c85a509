"""Runs that wait for a slot of their schedule: when it is worth letting one go.

The node that decides their schedule puts them aside. A node that notices the end of a run lets them
go: the node that executed it at once, the others within a poll interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.claim.steps import WAITING, ClaimSteps

_SCHEDULES: Final = 200
"""Schedules looked at by one statement; a longer walk is taken in several."""

_AT_ONCE: Final = float("-inf")


class OverlapWaits:
    """The statement, how far its walk over the schedules has come, and when to walk again."""

    def __init__(self, link: Link, interval: float, steps: ClaimSteps) -> None:
        """`interval` in seconds: how long an end elsewhere may go unnoticed."""
        self._link = link
        self._steps = steps
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
        self.look_at = monotonic() + self._interval
        row = await self._steps.attempt(WAITING, self._look, None)
        if row is None:
            return 0
        self._beyond = row["ended_at"] or 0
        if self._beyond:
            self.look_at = _AT_ONCE
        let_go: int = row["let_go"]
        if row["refused"]:
            let_go += await self._steps.end_refused_in_line(row["refused"], row["error"])
        return let_go

    async def _look(self) -> Row | None:
        rows = await self._link.rows("let_waiting_go", beyond=self._beyond, most=_SCHEDULES)
        return rows[0]
