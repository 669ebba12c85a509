"""No limit is exceeded unseen: lies about gated work, each of which its checker must see."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.verdict import check
from tests.chaos.lying import CASES, SEEDS, Lie, began, copy_of, has_ticks, some, tell
from tests.chaos.synthetic import NODES, WALL


def of_gate(history: History, *gates: str) -> list[Facts]:
    return [event for event in history.of("start") if event.get("gate") in gates]


def moved(history: History, start: Facts, by: float) -> None:
    for event in history.events:
        if event.get("fence") == start["fence"]:
            event["at"] += by


def exceeds_a_limit(history: History, chance: random.Random) -> bool:
    starts = of_gate(history, "one")
    long = [start for start in starts if has_ticks(history, start["fence"])]
    if len(starts) < 2 or not long:
        return False
    other = next(start for start in starts if start["run"] != long[0]["run"])
    moved(history, other, long[0]["at"] + 0.01 - other["at"])
    return True


def exceeds_the_weight_of_a_key(history: History, chance: random.Random) -> bool:
    """Two runs, which may execute at once, and are too heavy for it."""
    starts = {start["run"]: start for start in of_gate(history, "weighed more")}
    long = [start for start in starts.values() if has_ticks(history, start["fence"])]
    if len(starts) < 2 or not long:
        return False
    other = next(start for start in starts.values() if start["run"] != long[0]["run"])
    moved(history, other, long[0]["at"] + 0.01 - other["at"])
    return True


def exceeds_a_limit_with_another_gate(history: History, chance: random.Random) -> bool:
    """Two runs of a queue, of different kinds, may execute at once, and here are three."""
    starts = of_gate(history, "narrow", "both")
    long = [start for start in starts if has_ticks(history, start["fence"])]
    if len({start["gate"] for start in starts}) < 2 or not long:
        return False
    others = [start for start in starts if start["run"] != long[0]["run"]]
    runs = {start["run"]: start for start in others if start["gate"] == "narrow"}
    more = {start["run"]: start for start in others if start["gate"] == "both"}
    if not runs or not more:
        return False
    for start in (*list(runs.values())[:1], *list(more.values())[:1]):
        moved(history, start, long[0]["at"] + 0.01 - start["at"])
    return True


def exceeds_a_rate(history: History, chance: random.Random) -> bool:
    fences = {start["fence"] for start in of_gate(history, chance.choice(["rated", "paced"]))}
    rows = [row for row in history.table("ended") if row["fence"] in fences][:5]
    for number, row in enumerate(rows):
        row["claimed_at"] = WALL + 10 + number * 0.45
    return len(rows) == 5


def executes_in_another_zone(history: History, chance: random.Random) -> bool:
    starts = of_gate(history, "placed")
    if not starts:
        return False
    chance.choice(starts)["node"] = "n2"
    return True


def overloads_a_node(history: History, chance: random.Random) -> bool:
    starts = of_gate(history, "heavy")
    long = [start for start in starts if has_ticks(history, start["fence"])]
    if not long:
        return False
    others = [start for start in starts if start["run"] != long[0]["run"]]
    for start in {start["run"]: start for start in others}.values():
        for event in history.events:
            if event.get("fence") == start["fence"]:
                event["pid"] = long[0]["pid"]
        moved(history, start, long[0]["at"] + 0.01 - start["at"])
    return len({start["run"] for start in others}) >= 2


def repeats_a_transfer(history: History, chance: random.Random) -> bool:
    effects = history.table("effects")
    if effects:
        effects.append(dict(chance.choice(effects)))
    return bool(effects)


def loses_a_transfer(history: History, chance: random.Random) -> bool:
    effects = history.table("effects")
    if effects:
        effects.remove(chance.choice(effects))
    return bool(effects)


def dependents(history: History) -> list[Facts]:
    rows = [row for row in history.table("ended") if row["schedule_id"] == 900]
    return sorted(rows, key=lambda row: float(row["due_at"]))


def does_not_wait_for_the_fire_before(history: History, chance: random.Random) -> bool:
    fires = [row for row in dependents(history) if row["origin"] == "schedule"]
    for before, fire in itertools.pairwise(fires):
        if before["outcome"] == fire["outcome"] == "succeeded":
            before["finished_at"] = WALL + history.executions_of[fire["id"]][0].began + 1
            return True
    return False


def runs_after_a_fire_that_failed(history: History, chance: random.Random) -> bool:
    for row in dependents(history):
        if row["outcome"] == "upstream_failed":
            row |= {"outcome": "succeeded", "fence": 500_000, "attempt": 1}
            row["finished_at"] += 0.5
            at = row["due_at"] - WALL + 0.1
            began(history, row["id"], 500_000, 1, at)
            for event in history.events[-2:]:
                event |= {"gate": "g-previous", "kind": event["kind"].replace("stopped", "end")}
            return True
    return False


def begins_before_its_time(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded")
    if row is None:
        return False
    row["due_at"] += 1.0
    return True


def lets_a_run_wait_at_a_gate(history: History, chance: random.Random) -> bool:
    list(history.of("look"))[-1]["waiting_at_gates"] = 30.0
    return True


LIES: tuple[tuple[str, Lie], ...] = (
    ("C13", lets_a_run_wait_at_a_gate),
    ("C16", exceeds_a_limit),
    ("C16", exceeds_the_weight_of_a_key),
    ("C16", exceeds_a_limit_with_another_gate),
    ("C16", exceeds_a_rate),
    ("C16", executes_in_another_zone),
    ("C16", overloads_a_node),
    ("C16", repeats_a_transfer),
    ("C16", loses_a_transfer),
    ("C16", does_not_wait_for_the_fire_before),
    ("C16", runs_after_a_fire_that_failed),
    ("C16", begins_before_its_time),
)


@pytest.mark.parametrize(("checker", "lie"), LIES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_lie_about_gated_work_is_seen(checker: str, lie: Lie) -> None:
    tell(checker, lie)


def test_a_fire_may_run_after_one_whose_end_is_not_kept_any_more() -> None:
    judged = 0
    for seed in range(40):
        history = copy_of(seed)
        if not runs_after_a_fire_that_failed(history, random.Random(seed)):
            continue
        at = next(e["at"] for e in history.of("start") if e["fence"] == 500_000)
        fault = {"kind": "fault", "number": 1, "nemesis": "N15", "name": "lose_partition"}
        history.events.append({**fault, "phase": "on", "at": at - 1.0})
        history.events.append({**fault, "phase": "off", "at": at - 0.5, "problem": None})
        changed = History(history.events, history.tables, ttl=history.ttl)
        assert check(changed).broken == []
        judged += 1
    assert judged


def with_an_open_breaker(history: History, claims: list[float]) -> History | None:
    """It opened at 30 and was last seen so at 49.5; these are all that it guards."""
    for look in history.of("look"):
        look["now"] = WALL + look["at"]
        if 30 < look["at"] < 50:
            look["broken_since"] = WALL + 30
    # Their nodes have been there for long, and know what is open.
    starts = [event for event in of_gate(history, "guarded") if event["at"] > 20]
    fences = {event["fence"] for event in starts if event["pid"] in NODES.values()}
    guarded = {event["fence"] for event in of_gate(history, "guarded")}
    rows = [row for row in history.table("ended") if row["fence"] in fences][: len(claims)]
    for row in itertools.chain(history.table("ended"), history.table("attempts")):
        if row["fence"] in guarded:
            row["claimed_at"] = None
    for row, at in zip(rows, claims, strict=False):
        row["claimed_at"] = WALL + at
    return History(history.events, history.tables, ttl=2.0) if len(rows) == len(claims) else None


@pytest.mark.parametrize(
    ("claims", "is_broken"),
    [
        pytest.param([40.0, 40.3, 40.6, 40.9], True, id="four in a second"),
        pytest.param([40.0, 40.3, 40.6, 41.1], False, id="three in a second"),
        pytest.param([31.0, 31.3, 31.6, 31.9], False, id="before each node has heard of it"),
        pytest.param([50.0, 50.3, 50.6, 50.9], False, id="when it is closed"),
    ],
)
def test_only_probes_pass_an_open_breaker(claims: list[float], is_broken: bool) -> None:
    judged = 0
    for seed in range(SEEDS):
        changed = with_an_open_breaker(copy_of(seed), claims)
        if changed is None:
            continue
        expected = ["C16: 4 runs began within 0.900 s, past a breaker"] if is_broken else []
        assert check(changed).broken == expected, seed
        judged += 1
        if judged == CASES:
            return
    pytest.fail(f"only {judged} of {SEEDS} histories have runs that a breaker guards")
