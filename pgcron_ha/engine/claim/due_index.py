"""What waits: the first run of each path, and when the first of each kind is due."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.claim.search_order import Path, SearchOrder

_NEVER: Final = float("inf")
_LONG_SINCE: Final = float("-inf")


class DueIndex:
    """What the last look knows. Instants are `time.monotonic` seconds.

    Of runs with a capacity gate only whether there are any is known here.
    """

    def __init__(self, link: Link, queues: Sequence[str], order: SearchOrder) -> None:
        self._link = link
        self._queues = list(queues)
        self._order = order
        self.looked_at = _LONG_SINCE
        self.plain_due_at = self.once_due_at = _NEVER
        self.limited_wait = False
        """Whether runs with a capacity gate wait."""

    @property
    def due_at(self) -> float:
        """When the first waiting run is due."""
        return min(self.plain_due_at, self.once_due_at)

    def is_old(self, seconds: float) -> bool:
        """Whether the last look is older than this."""
        return monotonic() - self.looked_at > seconds

    async def look(self) -> list[Row]:
        """The first run of each path and kind: rows of ``next_due``, without those with limits."""
        bounds = self._order.bounds(monotonic())
        found = await self._link.rows("next_due", queues=self._queues, **bounds)
        due_index = [row for row in found if not row["is_limited"]]
        self.limited_wait = any(row["is_limited"] and row["is_due"] is not False for row in found)
        now = self.looked_at = monotonic()
        self.plain_due_at = _soonest([row for row in due_index if not row["is_once"]], now)
        self.once_due_at = _soonest([row for row in due_index if row["is_once"]], now)
        return due_index

    async def due_paths_by_age(self) -> list[Path]:
        """The paths on which something is due, that which has waited longest first."""
        due = [row for row in await self.look() if row["is_due"]]
        by_age = sorted(due, key=itemgetter("due_at"))
        return [(row["queue"], row["priority"], row["is_once"]) for row in by_age]

    def expect_more(self) -> None:
        """A claim took all that it might: there is probably more."""
        self.plain_due_at = _LONG_SINCE

    def expect_none_once(self) -> None:
        """A claim found no more runs that may start only once: until the next look there are none
        for this node.
        """
        self.once_due_at = _NEVER


def _soonest(due_index: Sequence[Row], now: float) -> float:
    if any(row["is_due"] for row in due_index):
        return _LONG_SINCE
    return now + min((row["seconds"] for row in due_index), default=_NEVER)
