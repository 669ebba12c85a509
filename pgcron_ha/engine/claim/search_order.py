"""Where a claim looks, and from where: the order of (queue, priority), and a lower bound for each;
and what waits there.

A bound lies at the last run that a full claim took: what is before it is claimed, or dead entries
of the index that would be walked for nothing. Late commits and retries can appear before a bound,
so every second a claim looks without bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from time import monotonic
from typing import Any, Final

from pgcron_ha.db.driver.link import Link, Row

PRIORITIES: Final = range(10)
AGEING_EVERY: Final = 16
"""Every n-th claim takes the oldest due run first, so that a low priority can't starve."""

SWEEP_SECONDS: Final = 1.0
"""Longest time for which a late commit may stay behind a bound."""

_NO_BOUND: Final = (float("-inf"), 0)
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = float("inf")
_LONG_SINCE: Final = float("-inf")

Path = tuple[str, int, bool]
"""Queue, priority, and whether it has the runs that may start only once."""

_Bound = tuple[float, int]


class SearchOrder:
    """The paths of one node's claims, and how far each has been claimed."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = list(queues)
        self._bounds: dict[Path, _Bound] = {}
        self.preferred: list[Path] = []
        """The next claim begins with these."""
        self._swept_at = float("-inf")
        self._turn = 0

    def in_order(self, now: float, with_once: bool) -> dict[str, list[Any]]:
        """Parameters of a claim: high priorities first; of one priority the queues, and with
        `with_once` both kinds of runs, take turns. `now` in seconds, any steady clock.
        """
        if now - self._swept_at >= SWEEP_SECONDS:
            self._bounds.clear()
            self._swept_at = now
        self._turn += 1
        first = self._turn % len(self._queues)
        queues = self._queues[first:] + self._queues[:first]
        kinds = ([True, False] if self._turn % 2 else [False, True]) if with_once else [False]
        usual = [(q, priority, once) for priority in PRIORITIES for q in queues for once in kinds]
        preferred = [path for path in self.preferred if path[2] in kinds]
        self.preferred = []
        bounds = {path: self._bounds.get(path, _NO_BOUND) for path in [*preferred, *usual]}
        return _parameters(bounds)

    def bounds(self, now: float) -> dict[str, list[Any]]:
        """Parameters of a look: the paths that have a bound, unless it is time to sweep."""
        known = {} if now - self._swept_at >= SWEEP_SECONDS else self._bounds
        return _parameters(known, "bound_")

    def claimed(self, rows: Sequence[Any], is_full: bool) -> None:
        """Moves the bounds to the last claimed row of each path; `rows` are in the order of due and
        id. A claim that found too little makes the next one sweep.
        """
        if not is_full:
            self.sweep()
            return
        lasts = {(row["queue"], row["priority"], row["delivery"]): row for row in rows}
        for (queue, priority, delivery), row in lasts.items():
            path = queue, priority, delivery != "at_least_once"
            self._bounds[path] = max((row["due"], row["id"]), self._bounds.get(path, _NO_BOUND))

    def sweep(self) -> None:
        """The next claim looks without bounds."""
        self._bounds.clear()


def _parameters(bounds: Mapping[Path, _Bound], prefix: str = "") -> dict[str, list[Any]]:
    return {
        f"{prefix}queues": [queue for queue, _, _ in bounds],
        f"{prefix}priorities": [priority for _, priority, _ in bounds],
        f"{prefix}onces": [is_once for _, _, is_once in bounds],
        "bound_dues": [_instant(due) for due, _ in bounds.values()],
        "bound_ids": [run for _, run in bounds.values()],
    }


def _instant(due: float) -> datetime:
    return _EVER if due == float("-inf") else datetime.fromtimestamp(due, UTC)


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


def _soonest(due_index: Sequence[Row], now: float) -> float:
    if any(row["is_due"] for row in due_index):
        return _LONG_SINCE
    return now + min((row["seconds"] for row in due_index), default=_NEVER)
