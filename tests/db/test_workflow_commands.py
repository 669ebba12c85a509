"""Workflows: what people order, whatever happens to the step between their word and its effect."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg
import pytest

from tests.db.control import fail
from tests.db.test_workflows_again import a_second_passes, ask, flow, run_of
from tests.db.workflows import Stage, end, step
from tests.servers import USER

__all__ = ["flow"]

SAYS_BUSY = {"busy": True}


@pytest.mark.parametrize("verb", ["skip_step", "succeed_step"])
@pytest.mark.parametrize("begins", ["the next turn", "added steps"])
async def test_a_step_is_ended_by_hand_also_when_another_run_has_taken_its_place(
    flow: Stage, verb: str, begins: str
) -> None:
    repeat = {"while": "$.busy == true", "at_most": 2, "every": "1 microsecond"}
    run = await flow.run(step("a", repeat=repeat), step("b", "a", rule="all_ended"))
    await flow.turn({})
    row = await run_of(flow, "a")
    assert row is not None
    await flow.connection.execute(f"SELECT pgcron.{verb}($1, 'a')", run)
    if begins == "added steps":
        added = json.dumps([step("e")])
        await flow.connection.execute("SELECT pgcron.add_steps($1, $2)", row["id"], added)
    await flow.end([row], {row["id"]: "a"}, {"a": SAYS_BUSY})
    await flow.work({"a": SAYS_BUSY})

    assert flow.began == ["a", "b"]
    assert (await flow.states(run))["a"] == ("skipped" if verb == "skip_step" else "succeeded")
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("said", "began"),
    [
        (["clear_step b", "skip_step c"], ["a", "b", "b"]),
        (["clear_step b", "skip_step c", "clear_step c"], ["a", "b", "b", "c"]),
        (["clear_step b", "skip_step b"], ["a", "b"]),
        (["clear_step b", "succeed_step b"], ["a", "b", "c"]),
    ],
)
async def test_a_step_that_is_ended_by_hand_while_it_is_cleared_is_not_executed(
    flow: Stage, said: list[str], began: list[str], at_once: bool
) -> None:
    """Unless it is cleared once more."""
    run = await flow.run(step("a"), step("b", "a"), step("c", "b"))
    await flow.turn({"a": None})
    await flow.turn({})  # b executes
    orders = "; ".join(
        f"SELECT pgcron.{verb}({run}, '{name}')" for verb, name in map(str.split, said)
    )
    for order in [orders] if at_once else orders.split("; "):
        await flow.connection.execute(order)
        await flow.advance()
    await end(flow, "b", ValueError())
    await a_second_passes(flow)
    await flow.work()

    assert flow.began == began
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(
    ("said", "began"),
    [
        (["clear_step a", "skip_step b"], ["a", "a", "c"]),
        (["skip_step b", "clear_step a"], ["a", "a", "c"]),
        (["succeed_step a", "skip_step b"], ["a", "c"]),
    ],
)
async def test_a_workflow_does_not_end_while_what_is_ordered_with_its_last_step_runs_again(
    flow: Stage, said: list[str], began: list[str]
) -> None:
    """Both orders are obeyed at once, and nothing is open but for the first."""
    run = await flow.run(step("a"), step("c", "a"), {"name": "b", "wait_for": "signal"})
    await flow.turn({"a": ValueError()})
    for verb, name in map(str.split, said):
        await flow.connection.execute(f"SELECT pgcron.{verb}($1, $2)", run, name)
    await flow.work()

    assert flow.began == began
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("keys", [{}, {"for_each": "$.args.list"}])
@pytest.mark.parametrize("is_over", [False, True])
async def test_a_run_whose_step_was_ended_by_hand_adds_no_steps(
    flow: Stage, keys: dict[str, str], is_over: bool
) -> None:
    run = await flow.run(step("a", **keys), step("b"), args={"list": [1]})
    await flow.turn({"b": None} if is_over else {})
    await ask(flow, "skip_step", run, "a")
    row = await run_of(flow, "a")
    assert row is not None
    assert await flow.state(run) == ("succeeded" if is_over else "blocked")
    added = json.dumps([step("e")])
    await flow.connection.execute("SELECT pgcron.add_steps($1, $2)", row["id"], added)
    await flow.end([row], {row["id"]: "a"}, {"a": None})
    if not is_over:
        await end(flow, "b")
    await flow.work()

    assert sorted(flow.began) == ["a", "b"]
    assert await flow.state(run) == "succeeded"


async def test_a_clear_lets_all_go_on_also_when_the_failure_comes_after_what_was_undone(
    flow: Stage,
) -> None:
    run = await flow.run(
        step("a"),
        step("b", "a"),
        step("c"),
        step("d"),
        step("e", "d"),
        step("undo_a", compensates="a"),
        {"name": "hold", "wait_for": "approval", "finally": True},
        on_failure="stop",
    )
    await flow.turn({"a": None, "c": None})
    await flow.turn({"b": ValueError()})
    await end(flow, "d")
    await flow.work()
    states = await flow.states(run)
    assert (states["e"], states["undo_a"], states["hold"]) == (
        "upstream_failed",
        "succeeded",
        "running",
    )
    flow.began.clear()

    said = await flow.connection.fetchval("SELECT pgcron.clear_step($1, 'c')", run)
    await flow.work()
    assert said == 6  # a was undone, and e was not executed as b had failed
    assert sorted(flow.began) == ["a", "b", "c", "e"]
    await ask(flow, "approve_step", run, "hold")
    assert await flow.state(run) == "succeeded"


async def test_a_step_that_could_begin_says_what_it_waits_for(flow: Stage) -> None:
    steps = (step("a"), step("b"), step("c", "a", "b", rule="one_succeeded"))
    last = {"finally": True}
    run = await flow.run(*steps, step("d", **last), step("e", "d", **last))
    waits = "SELECT name, waits_detail FROM pgcron.workflow_steps WHERE state = 'ready'"
    await flow.turn({})
    await ask(flow, "skip_step", run, "d")
    [row] = await flow.connection.fetch(waits)
    assert tuple(row) == ("e", "steps before it are not over")

    await ask(flow, "clear_step", run, "b")
    await end(flow, "a")
    rows = await flow.connection.fetch(f"{waits} ORDER BY name")
    why = "steps that are to run again still execute, and have to end first"
    assert [tuple(row) for row in rows] == [("c", why), ("e", why)]

    await end(flow, "b", ValueError())
    await a_second_passes(flow)
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_list_that_tolerates_what_a_person_cancelled_has_succeeded_also_after_a_stop(
    flow: Stage,
) -> None:
    each = step("a", for_each="$.args.list", tolerate=1)
    run = await flow.run(each, step("b"), args={"list": [1, 2]}, on_failure="stop")
    await flow.turn({})
    first, second = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    await ask(flow, "cancel_run", first["id"])
    await flow.end([first], {first["id"]: "a"}, {"a": ValueError()})
    await end(flow, "b", ValueError())
    await flow.end([second], {second["id"]: "a"}, {"a": None})
    await flow.advance()

    assert await flow.states(run) == {"a": "succeeded", "b": "dead"}
    assert await flow.state(run) == "dead"


async def test_a_list_whose_workflow_is_stopped_twice_has_not_succeeded(flow: Stage) -> None:
    each = step("a", for_each="$.args.list", tolerate=1, max_parallel=1)
    run = await flow.run(each, step("b"), args={"list": [1, 2]}, on_failure="stop")
    await flow.turn({})
    first = await run_of(flow, "a")
    assert first is not None
    await end(flow, "b", ValueError())
    await ask(flow, "cancel_run", run)
    await flow.end([first], {first["id"]: "a"}, {"a": None})
    await flow.advance()

    assert await flow.states(run) == {"a": "cancelled", "b": "dead"}


async def test_an_item_that_cancels_itself_was_executed_whatever_it_says(flow: Stage) -> None:
    each = step("a", for_each="$.args.list", tolerate=1)
    run = await flow.run(each, step("b"), args={"list": [1, 2]}, on_failure="stop")
    await flow.turn({})
    rows = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    await fail(flow.connection, rows[:1], kind="cancelled")
    await end(flow, "b", ValueError())
    await flow.end(rows[1:], {rows[1]["id"]: "a"}, {"a": None})
    await flow.advance()

    assert await flow.states(run) == {"a": "succeeded", "b": "dead"}


async def test_a_cancelled_workflow_of_which_no_step_has_failed_names_none(flow: Stage) -> None:
    run = await flow.run(step("a", optional=True))
    await flow.turn({})
    await ask(flow, "cancel_run", run)
    await end(flow, "a", ValueError())
    await flow.work()

    error = await flow.connection.fetchval("SELECT error FROM pgcron.runs WHERE id = $1", run)
    assert (await flow.state(run), error) == ("cancelled", f"cancelled by {USER}")


async def test_a_service_that_has_the_token_of_a_run_finds_the_results_before_its_step(
    flow: Stage,
) -> None:
    await flow.run(step("a"), step("b", "a"))
    await flow.turn({"a": {"rows": 3}})
    await flow.turn({})  # b executes
    row = await run_of(flow, "b")
    assert row is not None
    ask_for = "SELECT pgcron.results_of($1, $2)"

    found = await flow.connection.fetchval(ask_for, row["id"], row["token"])
    assert json.loads(found) == {"a": {"rows": 3}}
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flow.connection.fetchval(ask_for, row["id"], uuid4())
    assert refused.value.sqlstate == "PC012"
