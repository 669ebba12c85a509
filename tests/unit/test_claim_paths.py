from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.product.engine import SWEEP_SECONDS, SearchOrder

START = datetime(2026, 1, 1, tzinfo=UTC)
EVER = datetime.min.replace(tzinfo=UTC)
NAMES_OF_BOUNDS = ("bound_queues", "bound_priorities", "bound_onces", "bound_dues", "bound_ids")


def row(
    run: int, queue: str = "a", priority: int = 5, delivery: str = "at_least_once"
) -> dict[str, Any]:
    """A claimed run; a higher id is due later."""
    return {
        "id": run,
        "queue": queue,
        "priority": priority,
        "delivery": delivery,
        "due": (START + timedelta(seconds=run)).timestamp(),
    }


def paths_of(parameters: dict[str, list[Any]]) -> list[tuple[str, int, bool]]:
    names = ("queues", "priorities", "onces")
    return list(zip(*(parameters[name] for name in names), strict=True))


def bound(
    parameters: dict[str, list[Any]], queue: str, priority: int, once: bool = False
) -> tuple[datetime, int]:
    at = paths_of(parameters).index((queue, priority, once))
    return parameters["bound_dues"][at], parameters["bound_ids"][at]


def test_every_path_comes_once_high_priorities_first() -> None:
    order = paths_of(SearchOrder(["a", "b"]).in_order(0.0, False))

    assert len(order) == len(set(order)) == 20
    assert [priority for _, priority, _ in order] == sorted(priority for _, priority, _ in order)


def test_the_queues_take_turns() -> None:
    paths = SearchOrder(["a", "b", "c"])

    first = [paths_of(paths.in_order(0.0, False))[0][0] for _ in range(6)]

    assert sorted(first[:3]) == ["a", "b", "c"]
    assert first[3:] == first[:3]


def test_paths_that_are_preferred_come_first_and_once() -> None:
    paths = SearchOrder(["a", "b"])
    paths.preferred = [("b", 9, False), ("a", 8, True), ("a", 7, False)]

    order = paths_of(paths.in_order(0.0, False))
    assert order[:2] == [("b", 9, False), ("a", 7, False)]
    assert len(order) == len(set(order)) == 20

    assert paths_of(paths.in_order(0.0, False))[0][1] == 0


def test_runs_that_may_start_only_once_have_paths_of_their_own_that_take_turns() -> None:
    paths = SearchOrder(["a"])

    firsts = [paths_of(paths.in_order(0.0, True))[:2] for _ in range(4)]

    assert firsts[:2] == firsts[2:]
    assert sorted(firsts[:2]) == [[("a", 0, once), ("a", 0, not once)] for once in (False, True)]
    paths.claimed([row(1), row(2, delivery="at_most_once")], is_full=True)
    asked = paths.in_order(0.0, True)
    assert (bound(asked, "a", 5)[1], bound(asked, "a", 5, once=True)[1]) == (1, 2)


def test_a_full_claim_moves_the_bound_of_its_path_to_its_last_run() -> None:
    paths = SearchOrder(["a", "b"])
    paths.in_order(0.0, False)

    paths.claimed([row(7, priority=0), row(1), row(2), row(3)], is_full=True)

    asked = paths.in_order(0.1, False)
    assert bound(asked, "a", 5) == (START + timedelta(seconds=3), 3)
    assert bound(asked, "a", 0) == (START + timedelta(seconds=7), 7)
    assert bound(asked, "b", 5) == (EVER, 0)


def test_a_bound_never_goes_back_by_a_claim() -> None:
    paths = SearchOrder(["a"])
    paths.in_order(0.0, False)
    paths.claimed([row(9)], is_full=True)

    paths.claimed([row(4)], is_full=True)

    assert bound(paths.in_order(0.1, False), "a", 5)[1] == 9


def test_a_claim_that_found_too_little_makes_the_next_one_look_everywhere() -> None:
    paths = SearchOrder(["a"])
    paths.in_order(0.0, False)
    paths.claimed([row(9)], is_full=True)

    paths.claimed([row(10)], is_full=False)

    assert bound(paths.in_order(0.1, False), "a", 5) == (EVER, 0)


def test_every_second_a_claim_looks_without_bounds() -> None:
    paths = SearchOrder(["a"])
    paths.in_order(0.0, False)
    paths.claimed([row(9)], is_full=True)
    assert bound(paths.in_order(SWEEP_SECONDS - 0.01, False), "a", 5)[1] == 9

    assert bound(paths.in_order(SWEEP_SECONDS, False), "a", 5) == (EVER, 0)
    paths.claimed([row(12)], is_full=True)
    assert bound(paths.in_order(2 * SWEEP_SECONDS - 0.01, False), "a", 5)[1] == 12


def test_a_sweep_can_be_asked_for() -> None:
    paths = SearchOrder(["a"])
    paths.in_order(0.0, False)
    paths.claimed([row(9)], is_full=True)

    paths.sweep()

    assert bound(paths.in_order(0.1, False), "a", 5) == (EVER, 0)


CLAIMS = st.lists(
    st.tuples(
        st.floats(0, 3),
        st.booleans(),
        st.lists(st.tuples(st.integers(1, 100), st.sampled_from("ab"), st.integers(0, 9))),
    ),
    max_size=20,
)


@given(CLAIMS)
def test_no_claim_looks_behind_a_run_that_was_not_claimed(
    claims: list[tuple[float, bool, list[tuple[int, str, int]]]],
) -> None:
    """A bound is always a run of that very path that a full claim has taken."""
    paths = SearchOrder(["a", "b"])
    taken: set[tuple[str, int, int]] = set()
    now = 0.0
    for passed, is_full, rows in claims:
        now += passed
        asked = paths.in_order(now, False)
        for (queue, priority, _), number in zip(paths_of(asked), asked["bound_ids"], strict=True):
            assert number == 0 or (queue, priority, number) in taken
        claimed = [row(run, queue, priority) for run, queue, priority in rows]
        paths.claimed(claimed, is_full)
        taken |= {(each["queue"], each["priority"], each["id"]) for each in claimed}


def test_a_look_knows_the_bounds_of_full_claims_until_it_is_time_to_sweep() -> None:
    paths = SearchOrder(["a", "b"])
    nothing: dict[str, list[Any]] = {name: [] for name in NAMES_OF_BOUNDS}
    assert paths.bounds(0.0) == nothing

    paths.in_order(0.0, False)
    paths.claimed([row(1), row(2), row(3, "b")], is_full=True)
    instants = [START + timedelta(seconds=run) for run in (2, 3)]
    known = dict(
        zip(NAMES_OF_BOUNDS, (["a", "b"], [5, 5], [False, False], instants, [2, 3]), strict=True)
    )
    assert paths.bounds(SWEEP_SECONDS / 2) == known
    assert paths.bounds(SWEEP_SECONDS) == nothing

    paths.claimed([row(4)], is_full=False)
    assert paths.bounds(SWEEP_SECONDS / 2) == nothing
