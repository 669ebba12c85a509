"""How many runs to claim ahead of the slots: as many as end here in a quarter second. Pure."""

from __future__ import annotations

from typing import Final

AHEAD_SECONDS: Final = 0.25
"""Longer than a claim takes on a loaded server, shorter than anybody waits for a slot elsewhere."""

GATED_SECONDS: Final = 0.03
"""So long nobody notices that a run keeps its place from others while it waits here."""

_FEWEST_AHEAD: Final = 4
"""Fewer are not worth being held from other nodes."""

_WINDOW_SECONDS: Final = 0.05
"""Over which ends are counted: some of them fit into `AHEAD_SECONDS`."""

_PAUSE_SECONDS: Final = 1.0
"""After this time without a full window, the earlier rate is discarded."""

_WEIGHT: Final = 0.5
"""Of the last window; the rest is that of all before it."""

_FIRST_ENDS: Final = 8
"""Ends that give the rate of a burst before its first window is over."""

_SHORTEST_SECONDS: Final = 0.001


class Prefetch:
    """The rate at which runs end, smoothed, and what follows from it."""

    def __init__(self, bound: int) -> None:
        """`bound`: never more than this ahead."""
        self._bound = bound
        self._rate = 0.0
        self._window_began = float("-inf")
        self._ended = 0
        self._is_new = False

    @property
    def ahead(self) -> int:
        """Runs to hold beyond the slots; 0 while less than a handful end in a quarter second."""
        ahead = int(self._rate * AHEAD_SECONDS)
        return 0 if ahead < _FEWEST_AHEAD else min(self._bound, ahead)

    @property
    def ahead_of_gates(self) -> int:
        """As `ahead`, of runs that hold a place of a key or queue while they wait here."""
        return min(self.ahead, int(self._rate * GATED_SECONDS))

    def begin(self, now: float) -> None:
        """Runs begin on an idle node: after a pause their first ends give the rate."""
        if now - self._window_began > 2 * _WINDOW_SECONDS:
            self._window_began = now
            self._ended = 0
            self._is_new = True

    def stall(self, now: float) -> None:
        """No run ends any more: nothing is claimed ahead until some do."""
        self._rate = 0.0
        self._window_began = now
        self._ended = 0

    def count(self, ended: int, now: float) -> None:
        """`ended` runs ended at `now` (seconds of a steady clock)."""
        self._ended += ended
        passed = now - self._window_began
        is_telling = self._is_new and self._ended >= _FIRST_ENDS
        if passed < _WINDOW_SECONDS and not is_telling:
            return
        weight = 1.0 if self._is_new or passed > _PAUSE_SECONDS else _WEIGHT
        passed = max(_SHORTEST_SECONDS, min(passed, _PAUSE_SECONDS))
        self._rate += weight * (self._ended / passed - self._rate)
        self._window_began = now
        self._ended = 0
        self._is_new = False
