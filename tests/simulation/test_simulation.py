"""Clusters in virtual time; each seed is another history of faults, edits and work.

``python -m tests.simulation --seeds 2000`` goes through more of them."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import attempt
from tests.simulation.mutants import MUTANTS, Mutant, seeds_until_caught
from tests.simulation.simulate import Reported, simulate

SEEDS, PART = 50, 50

# Those that show soon; ``python -m tests.simulation --mutants`` hunts the others, too.
QUICK = [mutant for mutant in MUTANTS if mutant.shows_soon]
MOST_SEEDS = 200


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, SEEDS + 1, PART))
def test_no_history_breaks_a_promise(first: int) -> None:
    reported = [attempt(seed) for seed in range(first, first + PART)]

    faults = [each for each in reported if isinstance(each, str)]
    assert not faults, f"{len(faults)} of {PART} seeds\n" + faults[0]
    green = [each for each in reported if isinstance(each, Reported)]
    # It is worth nothing if nothing happens.
    trouble = set().union(*(each.seen for each in green))
    outcomes = set().union(*(each.outcomes for each in green))
    assert {"crash", "freeze", "stall", "storm", "cut", "restart", "leave", "clock"} <= trouble
    assert {"succeeded", "dead", "cancelled", "skipped", "lost", "expired"} <= outcomes
    assert sum(each.owed for each in green) > PART


def test_a_seed_is_the_same_history_again() -> None:
    first, again, other = simulate(7), simulate(7), simulate(8)

    assert first == again
    assert first.trace != other.trace


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_guard_that_is_gone_shows(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, MOST_SEEDS) is not None


def test_the_guards_are_there_again() -> None:
    with MUTANTS[0].at_work():
        pass

    assert all(getattr(mutant.where, mutant.what) is not mutant.by for mutant in MUTANTS)
