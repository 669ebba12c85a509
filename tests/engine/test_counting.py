"""What is counted of a batch; the queues' names are the tests' own, as the counters are the
process's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Context, Failed, Outcome
from tests.product.engine import (
    Ended,
    count_decided,
    count_dropped_lines,
    count_failures,
    count_lines,
    count_successes,
    count_waits,
)
from tests.product.telemetry import COUNTERS, Histogram


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """As if somebody could read the counters."""
    before, COUNTERS.is_watched = COUNTERS.is_watched, True
    yield
    COUNTERS.is_watched = before


@pytest.fixture
def queue() -> str:
    return f"counted-{uuid4()}"


def ended(
    run: int,
    queue: str,
    *,
    seconds: float | None = 0.02,
    outcome: Outcome = SUCCEEDED,
    attempt: int = 1,
    fire_time: datetime | None = None,
) -> Ended:
    """A run of py:a whose handler took so long and has just stopped; None: it never began."""
    context = Context(
        run, uuid4(), "py:a", "{}", attempt, 5, queue, 5, None, fire_time, uuid4(), run
    )
    now = monotonic()
    context.started_monotonic = None if seconds is None else now - seconds
    return context, outcome, now


def times(series: Any, *labels: str) -> tuple[int, Any]:
    """How many values, and their sum."""
    histogram = dict(series.items()).get(labels, Histogram())
    return sum(histogram.counts), histogram.total


def test_successes_are_attempts_and_runs_with_their_durations(queue: str) -> None:
    count_successes([ended(1, queue), ended(2, queue, seconds=0.03)])

    assert COUNTERS.attempts.at((queue, "py:a")) == {"succeeded": 2}
    assert COUNTERS.finished.at((queue, "py:a")) == {"succeeded": 2}
    assert times(COUNTERS.run_seconds, queue, "py:a") == (2, pytest.approx(0.05))
    assert times(COUNTERS.start_delays, queue) == (0, 0.0)


def test_a_failure_ends_a_run_only_when_there_is_no_retry_and_a_refused_one_is_not_counted(
    queue: str,
) -> None:
    failed = Failed("ValueError", "no")
    batch = [ended(run, queue, outcome=failed) for run in (1, 2, 3, 4)]
    kinds = ["failed", "timed_out", "failed", "failed"]

    count_failures(batch, {1: "retry", 2: "dead", 3: "cancelled"}, kinds)

    assert COUNTERS.attempts.at((queue, "py:a")) == {"failed": 1, "timed_out": 1, "cancelled": 1}
    assert COUNTERS.finished.at((queue, "py:a")) == {"dead": 1, "cancelled": 1}
    assert times(COUNTERS.run_seconds, queue, "py:a")[0] == 3


def test_the_start_delay_is_from_the_fire_time_to_the_first_attempt_s_start(queue: str) -> None:
    fire_time = datetime.now(UTC) - timedelta(seconds=10)

    count_successes(
        [
            ended(1, queue, seconds=4, fire_time=fire_time),
            ended(2, queue, seconds=4, fire_time=fire_time, attempt=2),
            ended(3, queue, seconds=4),
        ]
    )

    assert times(COUNTERS.start_delays, queue) == (1, pytest.approx(6, abs=0.5))


def test_what_never_began_has_no_duration_and_a_clock_behind_makes_no_negative_delay(
    queue: str,
) -> None:
    ahead = datetime.now(UTC) + timedelta(seconds=100)

    count_successes([ended(1, queue, seconds=None), ended(2, queue, fire_time=ahead)])

    assert COUNTERS.attempts.at((queue, "py:a")) == {"succeeded": 2}
    assert times(COUNTERS.run_seconds, queue, "py:a")[0] == 1
    assert times(COUNTERS.start_delays, queue) == (1, 0.0)


def test_a_wait_is_from_being_due_to_the_claim(queue: str) -> None:
    now = datetime.now(UTC).timestamp()
    count_waits([{"queue": queue, "due": now - 5}, {"queue": queue, "due": now + 50}])

    assert times(COUNTERS.queue_waits, queue) == (2, pytest.approx(5, abs=0.5))


def test_nothing_is_counted_for_each_run_while_nobody_can_read_it(queue: str) -> None:
    COUNTERS.is_watched = False

    count_successes([ended(1, queue)])
    count_failures([ended(2, queue)], {2: "dead"}, ["failed"])
    count_lines([(queue, "a line")])
    count_waits([{"queue": queue, "due": 0.0}])

    assert COUNTERS.attempts.at((queue, "py:a")) == {}
    assert times(COUNTERS.queue_waits, queue) == (0, 0.0)
    assert dict(COUNTERS.log_bytes.items()).get((queue,)) is None


def test_lines_are_counted_in_bytes(queue: str) -> None:
    before = COUNTERS.log_bytes_dropped["refused"]

    count_lines([(queue, "four"), (queue, "\u20ac"), (queue, "half \ud800")])
    count_dropped_lines("refused", ["four", "\u20ac"])

    assert COUNTERS.log_bytes.at((queue,)) == {"stored": 4 + 3 + 6}
    assert COUNTERS.log_bytes_dropped["refused"] - before == 7


def test_decisions_are_counted_by_what_they_were() -> None:
    before = dict(COUNTERS.occurrences)
    row: Any = {"schedules": 9, "runs": 3, "skipped": 1, "missed": 1000}

    count_decided(row)

    grown = {word: COUNTERS.occurrences[word] - count for word, count in before.items()}
    assert grown == {"run": 3, "skipped": 1, "missed": 1000, "expired": 0, "superseded": 0}
