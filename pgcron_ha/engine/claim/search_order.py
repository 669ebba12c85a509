"""Where a claim looks, and from where: the order of (queue, priority), and a lower bound for each.
Pure.

A bound lies at the last run that a full claim took: what is before it is claimed, or dead entries
of the index that would be walked for nothing. Late commits and retries can appear before a bound,
so every second a claim looks without bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

PRIORITIES: Final = range(10)
AGEING_EVERY: Final = 16
"""Every n-th claim takes the oldest due run first, so that a low priority can't starve."""

SWEEP_SECONDS: Final = 1.0
"""Longest time for which a late commit may stay behind a bound."""

_NO_BOUND: Final = (float("-inf"), 0)
_EVER: Final = datetime.min.replace(tzinfo=UTC)

Path = tuple[str, int, bool]
"""Queue, priority, and whether it has the runs that may start only once."""

_Bound = tuple[float, int]


class SearchOrder:
    """The paths of one node's claims, and how far each has been claimed."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = list(queues)
        self._bounds: dict[Path, _Bound] = {}
        self._preferred: list[Path] = []
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
        preferred = [path for path in self._preferred if path[2] in kinds]
        order = list(dict.fromkeys([*preferred, *usual]))
        self._preferred = []
        return _columns(order) | _bounds([self._bounds.get(path, _NO_BOUND) for path in order])

    def bounds(self, now: float) -> dict[str, list[Any]]:
        """Parameters of a look: the paths that have a bound, unless it is time to sweep."""
        known = {} if now - self._swept_at >= SWEEP_SECONDS else self._bounds
        return {
            "bound_queues": [path[0] for path in known],
            "bound_priorities": [path[1] for path in known],
            "bound_onces": [path[2] for path in known],
            **_bounds(list(known.values())),
        }

    def prefer(self, paths: Sequence[Path]) -> None:
        """The next claim begins with these."""
        self._preferred = list(paths)

    def claimed(self, rows: Sequence[Any], is_full: bool) -> None:
        """Moves the bounds to the last claimed row of each path; `rows` are in the order of due and
        id. A claim that found too little makes the next one sweep.
        """
        if not is_full:
            self.sweep()
            return
        for path, row in {_path_of(row): row for row in rows}.items():
            self._bounds[path] = max((row["due"], row["id"]), self._bounds.get(path, _NO_BOUND))

    def sweep(self) -> None:
        """The next claim looks without bounds."""
        self._bounds.clear()


def _path_of(row: Any) -> Path:
    return row["queue"], row["priority"], row["delivery"] != "at_least_once"


def _columns(paths: Sequence[Path]) -> dict[str, list[Any]]:
    queues, priorities, onces = zip(*paths, strict=True)
    return {"queues": list(queues), "priorities": list(priorities), "onces": list(onces)}


def _bounds(bounds: Sequence[_Bound]) -> dict[str, list[Any]]:
    return {
        "bound_dues": [_instant(due) for due, _ in bounds],
        "bound_ids": [run for _, run in bounds],
    }


def _instant(due: float) -> datetime:
    return _EVER if due == float("-inf") else datetime.fromtimestamp(due, UTC)
