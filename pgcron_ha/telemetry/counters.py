"""Counters of this process for metrics: cheap enough for the hot path, read at each scrape.

Numbers only grow. What costs time for each run is counted only if `Counters.is_watched`: a node
without metrics does not pay for it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from pgcron_ha.telemetry import events

T = TypeVar("T")

SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 3600.0),
)
"""Upper bounds of the steps in which durations are counted: 5 ms to an hour."""

RUNS: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
"""Upper bounds for how many runs a claim brought."""

MOST_SERIES: Final = 200
"""Label values of one metric: a histogram of each has twenty lines in every scrape."""

OTHER: Final = "_other"
"""The label of what exceeds `MOST_SERIES`, and of what has a label unknown to this process."""


class Histogram:
    """Values counted in steps. ``counts`` has one number more than bounds: larger values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of the values."""

    def add(self, values: Sequence[float]) -> None:
        """Counts a batch. A bound belongs to the step below it."""
        counts, bounds = self.counts, self.bounds
        self.total += sum(values)
        for value in values:
            counts[bisect_left(bounds, value)] += 1


class Series(Generic[T]):
    """Numbers by their labels; beyond `MOST_SERIES` the last label is `OTHER`."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._known: dict[tuple[str, ...], T] = {}
        self.dropped: int = 0
        """How often a value was counted under `OTHER` because there were too many labels."""

    def at(self, labels: tuple[str, ...]) -> T:
        """The number for these labels, a new one if there is none."""
        found = self._known.get(labels)
        if found is not None:
            return found
        if len(self._known) >= MOST_SERIES and labels[-1] != OTHER:
            self.dropped += 1
            return self.at((*labels[:-1], OTHER))
        return self._known.setdefault(labels, self._make())

    def items(self) -> list[tuple[tuple[str, ...], T]]:
        """All of them, as they are now."""
        return list(self._known.items())


class Counters:
    """The numbers of a process. Each is written by one thread, except what `saw` counts, and the
    dropped bytes of handlers that print in several threads at once, of which a few may be lost.
    """

    def __init__(self) -> None:
        self.is_watched = False
        """Whether metrics are served; set once, by the collector."""
        self.claims = Counter(full=0, partial=0, empty=0)
        """Claims by their result: as many runs as requested, fewer, or none."""
        self.claim_seconds = Histogram()
        self.claim_runs = Histogram(RUNS)
        self.attempts: Series[Counter[str]] = Series(Counter)
        """By (queue, handler): how attempts ended, each acknowledged by the database."""
        self.finished: Series[Counter[str]] = Series(Counter)
        """By (queue, handler): outcomes of runs that are over."""
        self.run_seconds: Series[Histogram] = Series(Histogram)
        """By (queue, handler): from a handler's start to its end."""
        self.start_delays: Series[Histogram] = Series(Histogram)
        """By (queue,): from the fire time to the first attempt's start, by this host's clock."""
        self.queue_waits: Series[Histogram] = Series(Histogram)
        """By (queue,): from when a run is due to its claim, by this host's clock."""
        self.occurrences = Counter(run=0, skipped=0, superseded=0, expired=0, missed=0)
        """Fires by what was decided here."""
        self.renewals = Counter(ok=0, refused=0, failed=0)
        self.fenced = Counter(complete=0, renew=0)
        """What the fence refused: the end of a run, or the renewal of the node's lease."""
        self.takeovers = Counter(lease_expired=0, restarted=0)
        """Nodes that this one declared dead, by the reason."""
        self.reaped: Counter[str] = Counter()
        """Runs of dead nodes, by what happened to them."""
        self.released = 0
        """Claimed runs that were given back before they began."""
        self.breakers: dict[str, str] = {}
        """Circuit breakers that this process saw open since it began, and their state now."""
        self.failures: Counter[str] = Counter()
        """Passes of services that failed and were tried again."""
        self.notifications = 0
        self.listens = 0
        """How often listening began."""
        self.log_bytes: Series[Counter[str]] = Series(Counter)
        """By (queue,): bytes of runs' output that were stored, under the key ``stored``."""
        self.log_bytes_dropped = Counter(buffer_full=0, refused=0)
        self._lock = threading.Lock()

    def saw(self, event: events.Event) -> None:
        """Counts an event; from any thread."""
        with self._lock:
            match event:
                case events.RunFenced():
                    self.fenced["complete"] += 1
                case events.NodeFenced():
                    self.fenced["renew"] += 1
                    self.renewals["refused"] += 1
                case events.PeerDied():
                    self.takeovers["lease_expired"] += 1
                case events.NodeJoined(predecessors=predecessors):
                    self.takeovers["restarted"] += predecessors
                case events.RunsReaped(verdicts=verdicts):
                    self._reaped(verdicts)
                case events.RunsReleased(runs=runs):
                    self.released += runs
                case events.ServiceFailed(service=service):
                    self.failures[service] += 1

    def broke(self, states: Mapping[str, str]) -> None:
        """The breakers that are not closed, by name; more than `MOST_SERIES` are not kept."""
        known = {**dict.fromkeys(self.breakers, "closed"), **states}
        worst = sorted(known, key=lambda name: (known[name] == "closed", name))
        self.breakers = {name: known[name] for name in worst[:MOST_SERIES]}

    def claimed(self, runs: int, asked: int, seconds: float) -> None:
        """One claim was answered."""
        if self.is_watched:
            self.claims["empty" if not runs else "full" if runs >= asked else "partial"] += 1
            self.claim_seconds.add([seconds])
            self.claim_runs.add([runs])

    def series_dropped(self) -> dict[str, int]:
        """How often each bounded metric had too many sets of labels."""
        return {
            "pgcron_attempts_total": self.attempts.dropped,
            "pgcron_run_duration_seconds": self.run_seconds.dropped,
            "pgcron_runs_finished_total": self.finished.dropped,
        }

    def _reaped(self, verdicts: Mapping[str, int]) -> None:
        # A reaper does not know the queue and handler of the runs that it ends.
        self.reaped.update(verdicts)
        over = {each: runs for each, runs in verdicts.items() if each not in ("retry", "snooze")}
        if over:
            self.finished.at((OTHER, OTHER)).update(over)


COUNTERS: Final = Counters()
"""This process's."""
