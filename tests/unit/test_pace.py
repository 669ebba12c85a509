from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.product.engine import AHEAD_SECONDS, Prefetch


def steady(prefetching: Prefetch, rate: float, seconds: float = 3.0, begin: float = 0.0) -> None:
    """Runs end at this rate, told every tenth of a second."""
    for step in range(round(seconds * 10)):
        prefetching.count(round(rate / 10), begin + step / 10)


def test_a_node_that_has_ended_nothing_claims_nothing_ahead() -> None:
    assert Prefetch(1000).ahead == 0


def test_a_steady_rate_is_followed() -> None:
    prefetching = Prefetch(10_000)
    steady(prefetching, 2000)

    assert prefetching.ahead == pytest.approx(2000 * AHEAD_SECONDS, rel=0.05)


def test_long_runs_are_never_hoarded() -> None:
    prefetching = Prefetch(1000)
    for step in range(20):
        prefetching.count(1, step * 1.0)

    assert prefetching.ahead == 0


def test_never_more_than_the_bound() -> None:
    prefetching = Prefetch(100)
    steady(prefetching, 100_000)

    assert prefetching.ahead == 100


def test_a_bound_of_nothing_means_nothing_ahead() -> None:
    prefetching = Prefetch(0)
    steady(prefetching, 100_000)

    assert prefetching.ahead == 0


def test_after_a_pause_the_past_says_nothing() -> None:
    prefetching = Prefetch(10_000)
    steady(prefetching, 10_000)
    prefetching.count(1, 1000.0)

    assert prefetching.ahead == 0


def test_ends_within_a_moment_are_one_window() -> None:
    prefetching = Prefetch(10_000)
    prefetching.count(0, 0.0)
    for number in range(49):
        prefetching.count(100, number / 1000)
    assert prefetching.ahead == 0

    prefetching.count(100, 0.05)
    assert prefetching.ahead > 0


def test_the_first_ends_of_a_burst_tell_its_pace() -> None:
    prefetching = Prefetch(10_000)
    prefetching.begin(0.0)
    prefetching.count(7, 0.004)
    assert prefetching.ahead == 0

    prefetching.count(1, 0.008)

    assert prefetching.ahead == pytest.approx(1000 * AHEAD_SECONDS)


def test_ends_in_no_time_at_all_are_a_pace_too() -> None:
    prefetching = Prefetch(10_000)
    prefetching.begin(1.0)
    prefetching.count(16, 1.0)

    assert prefetching.ahead == 4000


def test_the_first_ends_after_a_pause_outweigh_the_past() -> None:
    prefetching = Prefetch(10_000)
    steady(prefetching, 10_000)
    prefetching.begin(1000.0)
    prefetching.count(8, 1000.02)

    assert prefetching.ahead == pytest.approx(400 * AHEAD_SECONDS)


def test_slots_that_were_empty_for_a_moment_begin_no_new_burst() -> None:
    prefetching = Prefetch(10_000)
    steady(prefetching, 10_000, seconds=3.0)
    ahead = prefetching.ahead
    prefetching.begin(2.92)
    prefetching.count(8, 2.93)

    assert prefetching.ahead == ahead


def test_nothing_is_claimed_ahead_while_nothing_ends() -> None:
    prefetching = Prefetch(10_000)
    steady(prefetching, 10_000)
    prefetching.stall(4.0)
    assert prefetching.ahead == 0

    steady(prefetching, 2000, begin=5.0)

    assert prefetching.ahead > 0


@given(
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 100)), max_size=50),
)
def test_whatever_ends_whenever_it_stays_within_its_bounds(
    bound: int, ends: list[tuple[int, float]]
) -> None:
    prefetching = Prefetch(bound)
    now = 0.0
    for ended, passed in ends:
        now += passed
        prefetching.count(ended, now)

        assert 0 <= prefetching.ahead <= bound
