"""Counts ended runs in the process's counters: by batch, and only while they can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic, time
from typing import Any

from pgcron_ha.db.driver.link import Row
from pgcron_ha.engine.run.runner import Ended
from pgcron_ha.telemetry.counters import COUNTERS


def count_waits(claimed: Sequence[Any]) -> None:
    """Runs that were claimed: rows with ``queue`` and ``due``."""
    if COUNTERS.is_watched and claimed:
        now = time()
        for row in claimed:
            COUNTERS.queue_waits.at((row["queue"],)).add([max(0.0, now - row["due"])])


def count_successes(batch: Sequence[Ended]) -> None:
    """Counts runs whose success is in the database."""
    if COUNTERS.is_watched and batch:
        for labels, runs in _count_times(batch).items():
            COUNTERS.attempts.at(labels)["succeeded"] += runs
            COUNTERS.finished.at(labels)["succeeded"] += runs


def count_failures(
    batch: Sequence[Ended], verdicts: Mapping[int, str], kinds: Sequence[str]
) -> None:
    """Counts attempts that did not succeed: `verdicts` are the new states of their runs (runs
    without one were refused), `kinds` how each attempt ended.
    """
    if not COUNTERS.is_watched:
        return
    pairs = zip(batch, kinds, strict=True)
    reported = [(ended, kind) for ended, kind in pairs if ended[0].run_id in verdicts]
    _count_times([ended for ended, _ in reported])
    for (context, _, _), kind in reported:
        labels = (context.queue, context.handler)
        verdict = verdicts[context.run_id]
        COUNTERS.attempts.at(labels)["cancelled" if verdict == "cancelled" else kind] += 1
        if verdict not in ("retry", "snooze"):
            COUNTERS.finished.at(labels)[verdict] += 1


def count_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Lines of runs that were written: (queue, line)."""
    if COUNTERS.is_watched:
        for queue, line in lines:
            COUNTERS.log_bytes.at((queue,))["stored"] += _size(line)


def count_dropped_lines(reason: str, lines: Sequence[str]) -> None:
    """Lines of runs that were not kept, and why: ``buffer_full`` or ``refused``."""
    COUNTERS.log_bytes_dropped[reason] += sum(map(_size, lines))


def count_decided(row: Row) -> None:
    """Counts the decisions of one ``materialize``; too many fires to count are taken as 1000."""
    COUNTERS.occurrences["run"] += row["runs"]
    COUNTERS.occurrences["skipped"] += row["skipped"]
    COUNTERS.occurrences["missed"] += row["missed"]


def _size(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode("utf-8", "replace"))


def _count_times(batch: Sequence[Ended]) -> Counter[tuple[str, ...]]:
    """Counts how long handlers took and how late they began; returns attempts by their labels."""
    counted: Counter[tuple[str, ...]] = Counter()
    wall = time() - monotonic()
    for context, _, ended in batch:
        labels = (context.queue, context.handler)
        counted[labels] += 1
        started = context.started_monotonic
        if started is None:  # stopped before it began
            continue
        COUNTERS.run_seconds.at(labels).add([ended - started])
        if context.fire_time is not None and context.attempt == 1:
            delay = max(0.0, wall + started - context.fire_time.timestamp())
            COUNTERS.start_delays.at((context.queue,)).add([delay])
    return counted
