"""Nothing is wrong with a workflow unseen: lies about workflows, each of which must be seen."""

from __future__ import annotations

import random

import pytest

from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.workflows import check_workflows
from tests.chaos.lying import Lie, copy_of, has_ticks, some, tell
from tests.chaos.synthetic import WALL


def run_of(history: History, step: str) -> Facts | None:
    """The run of a step, when the history has it."""
    rows = [row for row in history.table("ended") if f'"step": "{step}"' in row["args"]]
    return rows[0] if rows else None


def state_of(history: History, run: Facts) -> Facts:
    return next(step for step in history.table("steps") if step["run"] == run["id"])


def starts_of(history: History, run: Facts) -> list[Facts]:
    return [event for event in history.of("start") if event["run"] == run["id"]]


def moved(history: History, fence: int, by: float) -> None:
    for event in history.events:
        if event.get("fence") == fence:
            event["at"] += by


def begins_a_join_before_its_parents(history: History, chance: random.Random) -> bool:
    parent, join = run_of(history, "p5"), run_of(history, "join")
    if parent is None or join is None:
        return False
    first, last = starts_of(history, join)[0], starts_of(history, parent)[-1]
    moved(history, first["fence"], last["at"] - 0.01 - first["at"])
    return True


def begins_a_step_after_one_that_did_not_complete(history: History, chance: random.Random) -> bool:
    parent = run_of(history, "p5")
    if parent is None:
        return False
    for event in history.of("end"):
        if event["run"] == parent["id"]:
            event["kind"] = "stopped"
    parent["outcome"] = state_of(history, parent)["state"] = "skipped"
    return True


def begins_before_all_items_are_over(history: History, chance: random.Random) -> bool:
    last = run_of(history, "last")
    items = [row for row in history.table("ended") if '"item": 3' in row["args"]]
    if last is None or not items:
        return False
    first = starts_of(history, last)[0]
    moved(history, first["fence"], starts_of(history, items[0])[0]["at"] - 0.01 - first["at"])
    return True


def makes_a_join_twice(history: History, chance: random.Random) -> bool:
    join = run_of(history, "join")
    if join is None:
        return False
    history.table("live").append({**join, "id": 9_000_001, "state": "ready", "outcome": None})
    return True


def executes_more_items_than_it_may(history: History, chance: random.Random) -> bool:
    items = [row for row in history.table("ended") if '"item"' in row["args"]]
    starts = [starts_of(history, row)[-1] for row in items]
    if not starts or not all(has_ticks(history, start["fence"]) for start in starts):
        return False
    for start in starts:
        moved(history, start["fence"], starts[-1]["at"] - start["at"])
    return True


def ends_otherwise_than_its_run(history: History, chance: random.Random) -> bool:
    run = run_of(history, "p0")
    if run is not None:
        state_of(history, run)["state"] = "dead"
    return run is not None


def ends_before_its_run(history: History, chance: random.Random) -> bool:
    run = run_of(history, "p0")
    if run is not None:
        state_of(history, run)["ended_at"] = run["finished_at"] - 1.0
    return run is not None


def succeeds_without_a_run(history: History, chance: random.Random) -> bool:
    run = run_of(history, "p0")
    if run is not None:
        state_of(history, run)["run"] = 9_000_001
    return run is not None


def cancels_a_step(history: History, chance: random.Random) -> bool:
    run = run_of(history, "p0")
    if run is not None:
        run["outcome"] = state_of(history, run)["state"] = "cancelled"
    return run is not None


def is_not_over(history: History, chance: random.Random) -> bool:
    row = some(history, "workflows", chance)
    assert row is not None
    row["ended_at"] = row["outcome"] = None
    return True


def ends_well_though_a_step_failed(history: History, chance: random.Random) -> bool:
    run = run_of(history, "p0")
    if run is not None:
        run["outcome"] = state_of(history, run)["state"] = "dead"
        run["max_attempts"] = 5
    return run is not None


def tells_nobody(history: History, chance: random.Random) -> bool:
    history.table("outbox").append({"id": 1, "workflow": 1})
    return True


def has_something_wrong(history: History, chance: random.Random) -> bool:
    history.table("wrong").append({"run_id": 1, "step": "join", "problem": "it waits"})
    return True


LIES: tuple[Lie, ...] = (
    begins_a_join_before_its_parents,
    begins_a_step_after_one_that_did_not_complete,
    begins_before_all_items_are_over,
    makes_a_join_twice,
    executes_more_items_than_it_may,
    ends_otherwise_than_its_run,
    ends_before_its_run,
    succeeds_without_a_run,
    cancels_a_step,
    is_not_over,
    ends_well_though_a_step_failed,
    tells_nobody,
    has_something_wrong,
)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_about_workflows_is_seen(lie: Lie) -> None:
    tell("C17", lie)


def test_a_step_of_a_redriven_workflow_may_rest_on_an_earlier_success() -> None:
    seeds = [seed for seed in range(40) if run_of(copy_of(seed), "join") is not None]
    history = copy_of(seeds[0])
    [row] = history.table("workflows")
    # As if its join had been executed by a third run, which kept the success of all before it. The
    # second one ended before it had executed anything.
    join, last = run_of(history, "join"), run_of(history, "last")
    assert join is not None
    assert last is not None
    between = {**row, "run": 9_000_000, "redrive_of": row["run"]}
    again = {**row, "run": 9_000_001, "redrive_of": 9_000_000}
    history.table("workflows").extend((between, again))
    history.table("ended").append(
        {**last, "id": 9_000_001, "handler": "workflow:c-joins", "origin": "redrive", "args": "{}"}
        | {"fence": None, "due_at": WALL}
    )
    for run in (join, last):
        run["parent_run"] = state_of(history, run)["workflow"] = 9_000_001
    changed = History(history.events, history.tables, ttl=history.ttl)

    assert not [problem for problem in check_workflows(changed) if "before" in problem]


def test_two_nodes_that_ended_excuse_the_workflow_above_too() -> None:
    history = next(copy_of(seed) for seed in range(40) if run_of(copy_of(seed), "p0") is not None)
    first = run_of(history, "p0")
    [inner] = history.table("workflows")
    assert first is not None
    [inner_run] = [row for row in history.table("ended") if row["id"] == inner["run"]]
    inner_run.update(origin="step", parent_run=9_000_000, args='{"step": "inner"}')
    history.table("workflows").append({**inner, "run": 9_000_000, "outcome": "dead"})
    history.table("ended").append({**inner_run, "id": 9_000_000, "origin": "enqueued"})
    changed = History(history.events, history.tables, ttl=history.ttl)
    ended = "C17: workflow 9000000 (c-joins) ended dead, not succeeded"
    assert ended in list(check_workflows(changed))

    loss = {"run_id": first["id"], "outcome": "lease_lost", "started_at": None}
    history.table("attempts").extend((loss, loss))
    changed = History(history.events, history.tables, ttl=history.ttl)
    assert ended not in list(check_workflows(changed))
