from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.product.telemetry import (
    COUNTERS,
    MOST_SERIES,
    OTHER,
    RUNS,
    SECONDS,
    Counters,
    Event,
    Histogram,
    NodeFenced,
    NodeJoined,
    PeerDied,
    RunFenced,
    RunsReaped,
    RunsReleased,
    Series,
    ServiceFailed,
    emit,
)

values = st.lists(st.one_of(st.sampled_from(SECONDS), st.floats(0, 1e5)), max_size=40)


def test_bounds_rise() -> None:
    for bounds in (SECONDS, RUNS):
        assert list(bounds) == sorted(set(bounds))


@given(values)
def test_a_batch_is_counted_as_its_values_one_by_one(batch: list[float]) -> None:
    expected = [0] * (len(SECONDS) + 1)
    for value in batch:
        expected[bisect_left(SECONDS, value)] += 1

    histogram = Histogram()
    histogram.add(list(batch))

    assert histogram.counts == expected
    assert histogram.total == pytest.approx(sum(batch))


def test_labels_beyond_the_most_are_counted_together_and_the_loss_is_told() -> None:
    series: Series[Histogram] = Series(Histogram)
    for number in range(MOST_SERIES + 3):
        series.at(("default", f"py:{number}")).add([1.0])
    series.at(("default", "py:0")).add([1.0])

    known = dict(series.items())

    assert len(known) == MOST_SERIES + 1
    assert sum(known["default", OTHER].counts) == 3
    assert sum(known["default", "py:0"].counts) == 2
    assert series.dropped == 3


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        (RunFenced(1, 1), {"fenced": {"complete": 1, "renew": 0}}),
        (NodeFenced("a"), {"fenced": {"complete": 0, "renew": 1}}),
        (NodeFenced("a"), {"renewals": {"ok": 0, "refused": 1, "failed": 0}}),
        (PeerDied("a"), {"takeovers": {"lease_expired": 1, "restarted": 0}}),
        (NodeJoined("n", "a", 1, 2), {"takeovers": {"lease_expired": 0, "restarted": 2}}),
        (RunsReaped({"retry": 3, "lost": 1}), {"reaped": {"retry": 3, "lost": 1}}),
        (RunsReleased(4, "it stops"), {"released": 4}),
        (ServiceFailed("reaper", "no", 1.0), {"failures": {"reaper": 1}}),
    ],
)
def test_events_are_counted(event: Event, counted: dict[str, object]) -> None:
    counters = Counters()

    counters.saw(event)

    assert {name: getattr(counters, name) for name in counted} == counted


def test_runs_that_the_reaper_ended_are_finished_of_whatever_handler() -> None:
    counters = Counters()

    counters.saw(RunsReaped({"retry": 3, "snooze": 2, "lost": 1}))

    assert dict(counters.finished.items()) == {(OTHER, OTHER): {"lost": 1}}


def test_what_is_told_is_counted_for_this_process() -> None:
    before = COUNTERS.released

    emit(RunsReleased(2, "the test wants it"))

    assert COUNTERS.released == before + 2


def test_claims_are_counted_while_somebody_watches() -> None:
    counters = Counters()
    counters.claimed(5, 5, 0.1)
    counters.is_watched = True
    for runs in (0, 3, 5):
        counters.claimed(runs, 5, 0.01)

    assert counters.claims == {"empty": 1, "partial": 1, "full": 1}
    assert sum(counters.claim_seconds.counts) == sum(counters.claim_runs.counts) == 3
