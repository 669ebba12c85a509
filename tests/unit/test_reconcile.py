from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from tests.product.engine import Beat, Held, PeerWatch, Reconciliation, reconcile

MINE, OTHER = uuid4(), uuid4()
SETTLED = float("inf")


def beat(
    runs: Mapping[int, UUID],
    *,
    sent: float = 100.0,
    cancelled: frozenset[int] = frozenset(),
    peers: Mapping[UUID, tuple[int, float]] | None = None,
) -> Beat:
    return Beat(sent, sent + 0.1, runs, cancelled, peers or {})


def held(token: UUID = MINE, *, since: float = 50.0, is_ending: bool = False) -> Held:
    return Held(token, since, is_ending)


def nothing_to_do(result: Reconciliation) -> bool:
    return not (result.to_stop or result.to_cancel or result.to_release or result.unknown)


def test_what_is_held_and_known_is_left_alone() -> None:
    assert nothing_to_do(reconcile(beat({1: MINE}), {1: held()}, {}, SETTLED))


def test_a_run_that_was_taken_away_is_stopped() -> None:
    assert reconcile(beat({}), {1: held()}, {}, SETTLED).to_stop == [1]


def test_a_run_that_was_claimed_anew_by_somebody_is_stopped() -> None:
    result = reconcile(beat({1: OTHER}), {1: held()}, {}, SETTLED)

    assert result.to_stop == [1]
    assert result.unknown == {1: (OTHER, 100.1)}


def test_a_run_whose_claim_was_answered_after_the_beat_was_sent_is_not_stopped() -> None:
    assert nothing_to_do(reconcile(beat({}), {1: held(since=100.0)}, {}, SETTLED))
    assert nothing_to_do(reconcile(beat({}), {1: held(since=100.05)}, {}, SETTLED))


def test_a_run_whose_end_is_on_its_way_is_not_stopped() -> None:
    assert nothing_to_do(reconcile(beat({}), {1: held(is_ending=True)}, {}, SETTLED))


def test_a_row_nobody_knows_is_kept_for_the_next_beat() -> None:
    result = reconcile(beat({1: OTHER}), {}, {}, SETTLED)

    assert (result.to_release, result.unknown) == ([], {1: (OTHER, 100.1)})


def test_a_row_nobody_knows_is_given_back_by_the_second_beat() -> None:
    first = reconcile(beat({1: OTHER}), {}, {}, SETTLED)

    second = reconcile(beat({1: OTHER}, sent=102.5), {}, first.unknown, 102.0)

    assert (second.to_release, second.unknown) == ([(1, OTHER)], {})


def test_a_row_nobody_knows_waits_for_a_claim_that_was_under_way() -> None:
    unknown = {1: (OTHER, 100.0)}

    waiting = reconcile(beat({1: OTHER}, sent=102.5), {}, unknown, 99.0)
    assert (waiting.to_release, waiting.unknown) == ([], unknown)

    later = reconcile(beat({1: OTHER}, sent=105.0), {}, waiting.unknown, 104.0)
    assert later.to_release == [(1, OTHER)]


def test_a_claim_that_overtook_the_beat_is_waited_for() -> None:
    """Sent after the beat and executed before it: the beat shows the row, the answer is still under
    way. Given back now, the run would begin here and elsewhere at once.
    """
    first = reconcile(beat({1: OTHER}, sent=100.0), {}, {}, 100.05)

    second = reconcile(beat({1: OTHER}, sent=102.5), {}, first.unknown, 100.05)

    assert second.to_release == []


def test_the_same_beat_twice_gives_nothing_back() -> None:
    unknown = {1: (OTHER, 100.0)}

    assert reconcile(beat({1: OTHER}), {}, unknown, SETTLED).to_release == []


def test_a_row_with_a_new_token_is_a_new_stranger() -> None:
    token = uuid4()

    result = reconcile(beat({1: token}, sent=102.5), {}, {1: (OTHER, 100.0)}, SETTLED)

    assert (result.to_release, result.unknown) == ([], {1: (token, 102.6)})


def test_a_stranger_whose_claim_was_answered_meanwhile_is_no_stranger() -> None:
    unknown = {1: (MINE, 100.0)}

    result = reconcile(beat({1: MINE}, sent=102.5), {1: held(since=101.0)}, unknown, SETTLED)

    assert nothing_to_do(result)


def test_a_stranger_that_is_gone_is_forgotten() -> None:
    assert nothing_to_do(reconcile(beat({}, sent=102.5), {}, {1: (OTHER, 100.0)}, SETTLED))


def test_a_cancel_request_is_obeyed_for_the_claim_it_is_about() -> None:
    asked = frozenset({1, 2, 3})
    rows = {1: MINE, 2: OTHER, 3: OTHER}

    result = reconcile(beat(rows, cancelled=asked), {1: held(), 2: held()}, {}, SETTLED)

    assert result.to_cancel == [1]
    assert result.to_stop == [2]


TOKENS = st.sampled_from([MINE, OTHER])
RUNS = st.dictionaries(st.integers(1, 6), TOKENS)
TIMES = st.sampled_from([90.0, 99.9, 100.0, 100.1])
HELD = st.dictionaries(st.integers(1, 6), st.builds(Held, TOKENS, TIMES, st.booleans()))
UNKNOWN = st.dictionaries(st.integers(1, 6), st.tuples(TOKENS, TIMES))


@given(RUNS, HELD, UNKNOWN, TIMES)
def test_no_run_is_ever_given_back_that_is_held(
    rows: dict[int, UUID],
    mine: dict[int, Held],
    unknown: dict[int, tuple[UUID, float]],
    settled: float,
) -> None:
    result = reconcile(beat(rows), mine, unknown, settled)

    for run, token in result.to_release:
        assert run not in mine or mine[run].token != token
        assert unknown[run][0] == token
        assert settled > unknown[run][1]
        assert run not in result.unknown
    for run in result.to_stop:
        assert rows.get(run) != mine[run].token
        assert not mine[run].is_ending
    known = {run for run, token in rows.items() if run in mine and mine[run].token == token}
    assert set(rows) == known | set(result.unknown) | {run for run, _ in result.to_release}


PEER, SECOND = uuid4(), uuid4()


def peers(at: float, **sequences: tuple[int, float]) -> Beat:
    names = {"peer": PEER, "second": SECOND}
    return Beat(at, at, {}, frozenset(), {names[name]: seen for name, seen in sequences.items()})


def watch(*beats: Beat, unbroken: float = 7.5) -> PeerWatch:
    watching = PeerWatch(unbroken)
    for each in beats:
        watching.observe(each)
    return watching


def test_a_peer_is_silent_when_its_beat_has_not_moved_for_its_whole_lease() -> None:
    watching = watch(*(peers(100.0 + 2 * step, peer=(7, 15.0)) for step in range(8)))

    assert watching.silent(114.9) == []
    assert watching.silent(115.0) == [(PEER, 7)]


def test_a_peer_that_renews_is_never_silent() -> None:
    watching = watch(*(peers(100.0 + 2 * step, peer=(step, 15.0)) for step in range(20)))

    assert watching.silent(139.0) == []


def test_each_peer_is_judged_by_its_own_lease() -> None:
    watching = watch(*(peers(100.0 + step, peer=(1, 5.0), second=(1, 15.0)) for step in range(7)))

    assert watching.silent(106.0) == [(PEER, 1)]
    assert watching.next_verdict() == 105.0


def test_a_peer_that_is_no_longer_among_the_living_is_forgotten() -> None:
    watching = watch(peers(100.0, peer=(1, 5.0)), peers(104.0))

    assert watching.silent(109.0) == []
    assert watching.next_verdict() is None


def test_a_peer_that_comes_back_gets_a_whole_lease() -> None:
    watching = watch(
        peers(100.0, peer=(1, 5.0)), peers(103.0), peers(104.0, peer=(1, 5.0)), peers(108.0)
    )
    assert watching.silent(108.0) == []

    watching = watch(peers(100.0, peer=(1, 5.0)), peers(103.0), peers(104.0, peer=(1, 5.0)))
    assert watching.next_verdict() == 109.0


def test_after_the_database_was_away_everybody_gets_a_whole_lease() -> None:
    watching = watch(peers(100.0, peer=(1, 5.0)), peers(108.0, peer=(1, 5.0)))

    assert watching.silent(108.1) == []
    assert watching.next_verdict() == 113.0
    assert watch(peers(100.0, peer=(1, 5.0))).silent(120.0) == []


def test_forgetting_begins_afresh() -> None:
    watching = watch(peers(100.0, peer=(1, 5.0)))
    watching.forget()

    assert watching.next_verdict() is None
    assert watching.silent(106.0) == []


def test_nothing_more_is_expected_of_a_peer_that_was_buried() -> None:
    watching = watch(peers(100.0, peer=(1, 5.0)), peers(105.0, peer=(1, 5.0)))
    assert watching.silent(105.0) == [(PEER, 1)]

    watching.bury(PEER)

    assert watching.silent(105.0) == []
    assert watching.next_verdict() is None
