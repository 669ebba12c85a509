"""Runs with capacity gates, in any order: no claim exceeds a limit, whatever people change and
whichever node dies, and no run is starved.

``PGCRON_HA_TEST_SEQUENCES=5000 python -m pytest tests/simulation/test_allowed.py -k no_claim``
plays other sequences, and so many.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.simulation.allowed_steps import SLOTS, Allowed
from tests.simulation.playing import play
from tests.simulation.real import RealStore
from tests.simulation.test_owed import without

MORE: Final = os.environ.get("PGCRON_HA_TEST_SEQUENCES")
FEW, MANY, STEPS = 15, int(MORE or 60), 40

# Each guard: its function, what is replaced in it, and by what.
GUARDS: Final = {
    "the slots of a key": ("choose_gated", "least(k.key_room, k.quota)", "k.quota"),
    "the weight of a key": ("choose_gated", "(k.slots_upto > k.key_room) IS NOT TRUE", "true"),
    "the rate of a key": ("rate_room", "unnest(counted.starts)", "unnest('{}'::int[])"),
    "a full queue": ("choose_gated", "most.queue IS NULL OR q.of_queue <= most.runs", "true"),
    "the slots of a node": ("choose_gated", "r.is_heavy OR r.upto <= r.room", "true"),
    "the slots kept for a heavy run": ("choose_awaited", "AND mine.state = 'alive'", "AND false"),
}


@pytest.mark.timeout(0 if MORE else 600)
@pytest.mark.parametrize(
    "sequences", [MANY if MORE else FEW, pytest.param(MANY, marks=pytest.mark.long)]
)
def test_no_claim_takes_more_than_is_allowed(real: RealStore, sequences: int) -> None:
    play(Allowed, real, sequences, STEPS, same=MORE is None)


def test_no_bound_on_time_ends_a_sequence(real: RealStore) -> None:
    """A statement that a busy machine delays would be an error that does not come again."""
    bounds = "SELECT name FROM pg_settings WHERE name LIKE '%\\_timeout' AND context = 'user'"
    bounds += " AND name <> 'wal_sender_timeout' AND setting <> '0'"

    assert real.ask(bounds) == []


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_of_claims_that_is_gone_is_missed(real: RealStore, guard: str) -> None:
    all_that_is_limited(real)
    without(real, *GUARDS[guard])

    with pytest.raises(AssertionError):
        all_that_is_limited(real)


def all_that_is_limited(real: RealStore) -> None:
    """More than may start, of each kind."""

    class Played(Allowed):
        pass

    Played.real = real
    played = Played()
    try:
        played.a_node_joins(offers_rare=True, has_label=True)
        played.a_key_is_limited("bank", 3, 1, by_weight=False)
        played.a_key_is_limited("bulk", 3, None, by_weight=True)
        played.a_queue_is_limited(1)
        for priority in (0, 4):
            played.runs_are_enqueued(2, "mail", "default", 1, priority, 0)
        played.a_node_claims(0, is_answered=True)
        played.runs_are_enqueued(2, "bulk", "default", 2, 0, 0)
        played.a_node_joins(offers_rare=True, has_label=True)
        played.a_node_claims(1, is_answered=True)
        played.a_node_dies(1)
        played.runs_are_enqueued(3, "bank", "default", 1, 0, 0)
        for _ in range(2):
            played.a_node_claims(0, is_answered=True)
            played.time_passes(1)
        played.runs_are_enqueued(3, None, "narrow", 1, 0, 0)
        played.runs_are_enqueued(4, None, "default", 1, 1, 0)  # they require a label
        played.a_node_joins(offers_rare=True, has_label=True)
        played.a_node_claims(1, is_answered=True)
        a_heavy_run_waits_among_light_ones(played)
    finally:
        real.undo()


def a_heavy_run_waits_among_light_ones(played: Allowed) -> None:
    """Each slot that gets free could be another light run's."""
    played.a_node_joins(offers_rare=False, has_label=False)
    node = played.nodes[-1]
    played.runs_are_enqueued(SLOTS, None, "default", 1, 4, 0)
    played.a_node_claims(len(played.nodes) - 1, is_answered=True)
    played.runs_are_enqueued(1, None, "default", SLOTS, 5, 0)
    heavy = max(played.runs)
    for _ in range(3 * SLOTS):
        played.runs_are_enqueued(1, None, "default", 1, 4, 0)
        played.time_passes(3)
        if heavy in node.held:
            return
        played.a_run_ends(len(played.nodes) - 1, 0, "good")
        played.a_node_claims(len(played.nodes) - 1, is_answered=True)
    raise AssertionError("a heavy run starves")
