from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgcron_ha.engine.claim.prefetch import AHEAD_SECONDS, Pace


def steady(pace: Pace, rate: float, seconds: float = 3.0, begin: float = 0.0) -> None:
    """Runs end at this rate, told every tenth of a second."""
    for step in range(round(seconds * 10)):
        pace.count(round(rate / 10), begin + step / 10)


def test_a_node_that_has_ended_nothing_claims_nothing_ahead() -> None:
    assert Pace(1000).ahead == 0


def test_a_steady_rate_is_followed() -> None:
    pace = Pace(10_000)
    steady(pace, 2000)

    assert pace.ahead == pytest.approx(2000 * AHEAD_SECONDS, rel=0.05)


def test_long_runs_are_never_hoarded() -> None:
    pace = Pace(1000)
    for step in range(20):
        pace.count(1, step * 1.0)

    assert pace.ahead == 0


def test_never_more_than_the_bound() -> None:
    pace = Pace(100)
    steady(pace, 100_000)

    assert pace.ahead == 100


def test_a_bound_of_nothing_means_nothing_ahead() -> None:
    pace = Pace(0)
    steady(pace, 100_000)

    assert pace.ahead == 0


def test_after_a_pause_the_past_says_nothing() -> None:
    pace = Pace(10_000)
    steady(pace, 10_000)
    pace.count(1, 1000.0)

    assert pace.ahead == 0


def test_ends_within_a_moment_are_one_window() -> None:
    pace = Pace(10_000)
    pace.count(0, 0.0)
    for number in range(49):
        pace.count(100, number / 1000)
    assert pace.ahead == 0

    pace.count(100, 0.05)
    assert pace.ahead > 0


def test_the_first_ends_of_a_burst_tell_its_pace() -> None:
    pace = Pace(10_000)
    pace.begin(0.0)
    pace.count(7, 0.004)
    assert pace.ahead == 0

    pace.count(1, 0.008)

    assert pace.ahead == pytest.approx(1000 * AHEAD_SECONDS)


def test_ends_in_no_time_at_all_are_a_pace_too() -> None:
    pace = Pace(10_000)
    pace.begin(1.0)
    pace.count(16, 1.0)

    assert pace.ahead == 4000


def test_the_first_ends_after_a_pause_outweigh_the_past() -> None:
    pace = Pace(10_000)
    steady(pace, 10_000)
    pace.begin(1000.0)
    pace.count(8, 1000.02)

    assert pace.ahead == pytest.approx(400 * AHEAD_SECONDS)


def test_slots_that_were_empty_for_a_moment_begin_no_new_burst() -> None:
    pace = Pace(10_000)
    steady(pace, 10_000, seconds=3.0)
    ahead = pace.ahead
    pace.begin(2.92)
    pace.count(8, 2.93)

    assert pace.ahead == ahead


def test_nothing_is_claimed_ahead_while_nothing_ends() -> None:
    pace = Pace(10_000)
    steady(pace, 10_000)
    pace.stall(4.0)
    assert pace.ahead == 0

    steady(pace, 2000, begin=5.0)

    assert pace.ahead > 0


@given(
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 100)), max_size=50),
)
def test_whatever_ends_whenever_it_stays_within_its_bounds(
    bound: int, ends: list[tuple[int, float]]
) -> None:
    pace = Pace(bound)
    now = 0.0
    for ended, passed in ends:
        now += passed
        pace.count(ended, now)

        assert 0 <= pace.ahead <= bound
