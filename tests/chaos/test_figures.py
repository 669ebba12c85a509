from __future__ import annotations

import pytest

from tests.chaos.checking.figures import figures_of, quantile
from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.verdict import check
from tests.chaos.report import Summary, lines_of, markdown
from tests.chaos.stage import Settings
from tests.chaos.synthetic import valid_history


def claim(run: int, fence: int, attempt: int, pid: int, at: float, until: float) -> list[Facts]:
    facts = {"run": run, "fence": fence, "pid": pid, "attempt": attempt, "node": "n1"}
    return [
        {"kind": "start", "at": at, "fire": None, "concurrency_key": None, **facts},
        {"kind": "tick", "at": until, **facts},
    ]


def test_recovery_is_from_the_kill_to_the_next_start_of_what_was_executed() -> None:
    events = [
        *claim(1, 1, 1, 11, 5.0, 9.9),
        *claim(1, 2, 2, 12, 13.5, 14.0),
        *claim(2, 3, 1, 11, 5.0, 6.0),
        *claim(2, 4, 2, 12, 30.0, 31.0),
        {"kind": "death", "at": 10.0, "pid": 1, "node": "n1", "of": 11, "code": -9},
        {"kind": "spawn", "at": 10.5, "pid": 1, "node": "n1", "of": 13},
        {"kind": "freeze", "at": 14.0, "pid": 1, "of": 12, "seconds": 0.5},
        {"kind": "server", "at": 29.0, "pid": 1, "state": "up"},
    ]

    found = figures_of([History(events, ttl=2.0)])

    assert found.recovery == {
        "TTL 2 s: node killed, restarted at once": [3.5],
        "TTL 2 s: server takes connections again, to the first start": [1.0],
    }


def test_recovery_while_something_else_is_wrong_is_told_apart() -> None:
    def fault(number: int, at: float, phase: str) -> Facts:
        facts = {"nemesis": "N1", "name": "kill_node", "problem": None}
        return {"kind": "fault", "at": at, "pid": 1, "number": number, "phase": phase, **facts}

    events = [
        *claim(1, 1, 1, 11, 5.0, 9.9),
        *claim(1, 2, 2, 12, 13.5, 14.0),
        *claim(2, 3, 1, 12, 18.0, 20.0),
        *claim(2, 4, 2, 13, 22.0, 23.0),
        fault(0, 9.9, "on"),
        {"kind": "death", "at": 10.0, "pid": 1, "node": "n1", "of": 11, "code": -9},
        fault(0, 10.1, "off"),
        fault(1, 20.0, "on"),
        {"kind": "death", "at": 20.1, "pid": 1, "node": "n1", "of": 12, "code": -9},
        fault(2, 21.0, "on"),
        fault(1, 21.0, "off"),
    ]

    found = figures_of([History(events, ttl=2.0)])

    assert {name: len(seconds) for name, seconds in found.recovery.items()} == {
        "TTL 2 s: node killed": 1,
        "TTL 2 s: node killed, amid other faults": 1,
    }


def test_a_freeze_and_a_cut_count_when_they_outlast_the_lease() -> None:
    events = [
        {"kind": "spawn", "at": 0.0, "pid": 1, "node": "n1", "of": 11},
        *claim(1, 1, 1, 11, 5.0, 10.0),
        *claim(1, 2, 2, 12, 12.5, 14.0),
        {"kind": "freeze", "at": 10.0, "pid": 1, "of": 11, "seconds": 5.0},
        {"kind": "cut", "at": 10.0, "pid": 1, "node": "n1"},
        {"kind": "healed", "at": 15.0, "pid": 1, "node": "n1"},
    ]

    found = figures_of([History(events, ttl=2.0)])

    assert found.recovery == {
        "TTL 2 s: node frozen for longer than its lease": [2.5],
        "TTL 2 s: node cut off for longer than its lease": [2.5],
    }


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 3), (0.99, 5), (1.0, 5)])
def test_a_quantile_is_a_value_that_was_seen(part: float, value: int) -> None:
    assert quantile([5, 3, 1, 2, 4], part) == value


def test_the_report_tells_every_seed_and_every_problem() -> None:
    summary = Summary()
    for seed in (1, 2):
        history = valid_history(seed)
        if seed == 2:
            history.table("ended").append(dict(history.table("ended")[0]))
        settings = Settings(seed)
        verdict = check(history)
        summary.add(settings, history, verdict)
        assert f"seed {seed}:" in next(lines_of(settings, verdict, 1.0))

    page = markdown(summary)

    assert summary.word == "broken"
    assert "Verdict: **broken**" in page
    assert "- seed 2: C2: run" in page
    assert "| at_most_once |" in page
    assert "## Recovery, seconds" in page
    assert "| a run was lost |" in page


def test_a_run_that_has_shown_nothing_rare_is_inconclusive() -> None:
    summary = Summary()
    history = valid_history(1)

    summary.add(Settings(), history, check(history))

    assert check(history).broken == []
    assert summary.word == check(history).word == "inconclusive"
