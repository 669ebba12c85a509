from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.product.engine import LOST_AT, OVER_AT, SUSPECT_AT, Lease, LeasePhase

SECONDS = st.floats(min_value=0, max_value=1e9, allow_nan=False)
TTLS = st.floats(min_value=1, max_value=300)


def test_a_lease_that_was_never_renewed_is_over() -> None:
    lease = Lease(15)

    assert lease.phase(0) is LeasePhase.OVER
    assert not lease.is_held(0)


@pytest.mark.parametrize(
    ("age", "phase"),
    [
        (0, LeasePhase.HELD),
        (7.4, LeasePhase.HELD),
        (7.5, LeasePhase.SUSPECT),
        (9.7, LeasePhase.SUSPECT),
        (9.75, LeasePhase.LOST),
        (13.4, LeasePhase.LOST),
        (13.5, LeasePhase.OVER),
        (1000, LeasePhase.OVER),
    ],
)
def test_what_a_node_may_do_follows_from_the_age_of_its_renewal(
    age: float, phase: LeasePhase
) -> None:
    lease = Lease(15)
    lease.renew(100)

    assert lease.phase(100 + age) is phase
    assert lease.is_held(100 + age) is (phase is LeasePhase.HELD)


def test_a_renewal_counts_from_when_it_was_sent_and_an_older_one_changes_nothing() -> None:
    lease = Lease(10)
    lease.renew(100)
    lease.renew(90)

    assert lease.renewed_at == 100
    assert lease.age(104) == 4
    assert lease.deadline() == pytest.approx(109)


def test_a_lease_that_has_ended_is_over_at_once_and_can_be_renewed() -> None:
    lease = Lease(10)
    lease.renew(100)
    lease.end()
    assert lease.phase(100) is LeasePhase.OVER

    lease.renew(101)
    assert lease.phase(101) is LeasePhase.HELD


def test_a_node_has_stopped_before_anybody_may_take_its_runs() -> None:
    assert 0 < SUSPECT_AT < LOST_AT < OVER_AT < 1
    lease = Lease(15)
    lease.renew(0)

    assert lease.deadline() < 15


@given(TTLS, SECONDS, SECONDS, SECONDS)
def test_a_phase_never_goes_back_while_time_passes(
    ttl: float, renewed: float, age: float, later: float
) -> None:
    lease = Lease(ttl)
    lease.renew(renewed)

    assert lease.phase(renewed + age) <= lease.phase(renewed + age + later)


@given(TTLS, SECONDS, SECONDS)
def test_nothing_may_begin_unless_the_phase_says_so(ttl: float, renewed: float, age: float) -> None:
    lease = Lease(ttl)
    lease.renew(renewed)
    now = renewed + age

    if lease.is_held(now):
        assert lease.phase(now) <= LeasePhase.SUSPECT  # they may differ by a rounding
    if lease.phase(now) >= LeasePhase.LOST:
        assert not lease.is_held(now)
