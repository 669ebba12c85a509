from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.composing import LONGEST, SHORTEST, compose

NEMESES = ["N1", "N3", "N5", "N17"]


def test_the_same_seed_gives_the_same_faults() -> None:
    assert compose(7, 60, 2, NEMESES) == compose(7, 60, 2, NEMESES)
    assert compose(7, 60, 2, NEMESES) != compose(8, 60, 2, NEMESES)


@given(st.integers(0, 10_000), st.floats(5, 300), st.floats(1, 15))
def test_faults_are_bounded_and_in_order(seed: int, seconds: float, ttl: float) -> None:
    faults = compose(seed, seconds, ttl, NEMESES)

    assert faults[0].at == 0
    assert all(one.at <= two.at for one, two in itertools.pairwise(faults))
    assert all(fault.at < seconds for fault in faults)
    assert all(SHORTEST * ttl - 1e-9 <= fault.seconds <= LONGEST * ttl + 1e-9 for fault in faults)


@given(st.integers(0, 10_000))
def test_no_nemesis_is_forgotten(seed: int) -> None:
    """Each has had its turn before any has its second but one."""
    counts = Counter(fault.nemesis for fault in compose(seed, 200, 2, NEMESES))

    assert set(counts) == set(NEMESES)
    assert max(counts.values()) - min(counts.values()) <= 2
