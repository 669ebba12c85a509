"""Workflows when people intervene: clears, ends by hand, redrives, stops and deadlines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.db.control import Connect, Connection, Row, call, claim, finish
from tests.db.workflows import Stage, end, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def run_of(flow: Stage, name: str) -> Row | None:
    return await flow.connection.fetchrow(
        "SELECT * FROM pgcron.run WHERE handler = $1", f"py:{name}"
    )


async def ask(flow: Stage, verb: str, run: int, *arguments: Any) -> None:
    places = "".join(f", ${number}" for number in range(2, len(arguments) + 2))
    await flow.connection.fetchval(f"SELECT pgcron.{verb}($1{places})", run, *arguments)
    await flow.advance()


async def a_second_passes(flow: Stage) -> None:
    await flow.connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()


@pytest.mark.parametrize("verb", ["skip_step", "succeed_step"])
async def test_a_workflow_is_not_over_before_what_a_step_ended_by_hand_waited_for(
    flow: Stage, verb: str
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("last", **{"finally": True}))
    await flow.turn({})
    await ask(flow, verb, run, "b")
    await flow.work()
    assert flow.began == ["a"]
    assert await flow.state(run) == "blocked"

    await end(flow, "a")
    await flow.work()
    assert flow.began == ["a", "last"]
    assert await flow.state(run) == "succeeded"


async def test_a_redrive_runs_what_failed_also_when_what_comes_after_it_had_succeeded(
    flow: Stage,
) -> None:
    run = await flow.run(step("a"), step("b", "a", rule="all_ended"))
    await flow.work({"a": ValueError()})
    assert await flow.states(run) == {"a": "dead", "b": "succeeded"}
    flow.began.clear()

    again = await flow.connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work()
    assert flow.began == ["a", "b"]
    assert await flow.state(again) == "succeeded"


async def test_what_was_ended_by_hand_is_over_before_its_step_begins_again(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"))
    await flow.turn({})
    await ask(flow, "skip_step", run, "a")
    await ask(flow, "clear_step", run, "a")
    await flow.turn({})
    assert flow.began == ["a", "b"]

    await end(flow, "a", ValueError())
    await a_second_passes(flow)
    await flow.work()
    assert flow.began == ["a", "b", "a"]


async def test_nothing_begins_because_what_is_cleared_was_ended(flow: Stage) -> None:
    undo = step("c", "a", rule="one_failed")
    run = await flow.run(step("a"), step("b"), undo, step("d"), on_failure="kill")
    await flow.turn({})
    await flow.connection.fetchval("SELECT pgcron.clear_step($1, 'b')", run)
    await ask(flow, "clear_step", run, "a")
    await end(flow, "a", ValueError())
    await flow.turn({})
    assert sorted(flow.began) == ["a", "b", "d"]

    await end(flow, "b", ValueError())
    await end(flow, "d")
    await flow.work()
    assert sorted(flow.began) == ["a", "a", "b", "b", "d"]
    assert await flow.state(run) == "succeeded"


async def test_a_clear_lets_all_go_on_that_a_failure_had_ended(flow: Stage) -> None:
    run = await flow.run(
        step("a"),
        step("b"),
        step("c", "b"),
        {"name": "go", "wait_for": "signal"},
        on_failure="kill",
    )
    await flow.turn({"a": ValueError()})
    await ask(flow, "clear_step", run, "a")
    await end(flow, "b", ValueError())
    await ask(flow, "signal", run, "go")
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_clear_of_another_step_lets_nothing_begin_that_a_failure_keeps(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"), step("c", "b"), step("d"), on_failure="stop")
    await flow.turn({"d": None})
    await end(flow, "a", ValueError())
    await ask(flow, "clear_step", run, "d")
    await end(flow, "b")
    await flow.work()
    assert "c" not in flow.began
    assert await flow.states(run) == {
        "a": "dead",
        "b": "succeeded",
        "c": "upstream_failed",
        "d": "upstream_failed",
    }


async def test_an_approval_that_is_cleared_is_asked_for_again(flow: Stage) -> None:
    run = await flow.run(step("b"), {"name": "go", "wait_for": "approval"}, step("a", "go"))
    await flow.turn({})
    await ask(flow, "approve_step", run, "go", False)
    assert (await flow.states(run))["go"] == "dead"
    await ask(flow, "clear_step", run, "go")
    assert (await flow.states(run))["go"] == "running"
    await ask(flow, "approve_step", run, "go", True)
    await end(flow, "b")
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_run_that_is_born_while_its_step_is_cleared_is_no_second_one(
    flow: Stage, another: Connect
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    await flow.turn({})
    row = await run_of(flow, "a")
    assert row is not None
    other = await another()
    transaction = other.transaction()
    await transaction.start()
    await finish(other, [row])
    await flow.connection.fetchval("SELECT pgcron.clear_step($1, 'b')", run)
    await call(flow.connection, "advance_workflow", workflow=run, most=500)
    await transaction.commit()
    await flow.advance()
    await a_second_passes(flow)
    await flow.work()
    assert flow.began == ["a", "b"]
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("most", [None, 1])
async def test_what_executes_of_a_list_that_is_ended_by_hand_is_stopped(
    flow: Stage, most: int | None
) -> None:
    keys = {} if most is None else {"max_parallel": most}
    run = await flow.run(
        step("a", for_each="$.args.list", **keys), step("b", "a"), args={"list": [1, 2]}
    )
    assert len(await flow.turn({})) == (most or 2)
    await ask(flow, "succeed_step", run, "a", '{"n": 1}')
    rows = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    assert len(rows) == (most or 2)
    assert all(row["cancel_at"] is not None for row in rows)
    await flow.end(rows, {row["id"]: "a" for row in rows}, {"a": ValueError()})
    await flow.work()

    assert json.loads(flow.results["b"]) == {"a": {"n": 1}}
    items = await flow.connection.fetch("SELECT state FROM pgcron.step WHERE item >= 0")
    assert [row["state"] for row in items] == ["cancelled"] * 2


async def test_a_list_of_which_no_item_began_before_it_was_ended_is_cancelled(flow: Stage) -> None:
    run = await flow.run(
        step("a"),
        step("b"),
        step("c", "b", for_each="$.args.list", tolerate=1),
        on_failure="kill",
        args={"list": [1, 2]},
    )
    rows = await claim(flow.connection, flow.node)
    names = {row["id"]: row["handler"].removeprefix("py:") for row in rows}
    await flow.end(rows, names, {"a": ValueError(), "b": None})
    await flow.advance()
    assert (await flow.states(run))["c"] == "cancelled"


async def test_a_killed_workflow_kills_those_that_are_its_steps(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("v", step("a"), step("last", **{"finally": True}))
    run = await flow.run({"name": "inner", "handler": "workflow:v"})
    await flow.turn({})
    await flow.turn({})
    await ask(flow, "kill_run", run)
    row = await run_of(flow, "a")
    assert row is not None
    assert row["kill_at"] is not None
    await end(flow, "a", ValueError())
    await flow.work()
    assert flow.began[-1] == "a"
    assert await flow.state(run) == "cancelled"


async def test_a_workflow_that_waits_after_a_failure_ends_at_its_timeout(flow: Stage) -> None:
    steps = ({"name": "go", "wait_for": "signal"}, step("a"))
    run = await flow.run(*steps, timeout="1 hour")
    await flow.turn({"a": ValueError()})
    assert await flow.states(run) == {"go": "running", "a": "dead"}
    await flow.connection.execute("UPDATE pgcron.workflow_run SET deadline = now()")
    await flow.advance()
    assert await flow.state(run) == "dead"


async def test_what_runs_last_does_not_begin_since_what_it_comes_after_was_ended_by_hand(
    flow: Stage,
) -> None:
    run = await flow.run(
        step("a"),
        step("b"),
        step("undo_a", compensates="a"),
        step("undo_b", compensates="b"),
        step("c", **{"finally": True}),
        step("d", "c", **{"finally": True}),
    )
    await flow.turn({"a": None})
    await ask(flow, "skip_step", run, "c")
    await ask(flow, "skip_step", run, "undo_b")
    await flow.work()
    assert flow.began == ["a", "b"]

    await end(flow, "b", ValueError())
    await flow.work()
    assert flow.began == ["a", "b", "undo_a", "d"]
    assert await flow.state(run) == "dead"


@pytest.mark.parametrize("how", ["rejected", "deadline", "args"])
async def test_a_failure_without_a_run_stops_the_others_too(flow: Stage, how: str) -> None:
    """At once, and not when something else ends."""
    first: dict[str, Any] = {"name": "go", "wait_for": "approval", "deadline": "1 hour"}
    if how == "args":
        first = step("go", "b", handler="py:c", args_from={"x": "$.args.nothing"})
    run = await flow.run(step("b"), first, step("a"), on_failure="kill")
    await flow.turn({"b": None})
    if how == "rejected":
        await ask(flow, "approve_step", run, "go", False)
    elif how == "deadline":
        await flow.connection.execute("UPDATE pgcron.step SET due = now() WHERE due IS NOT NULL")
        await flow.advance()
    row = await run_of(flow, "a")
    assert row is not None
    assert row["cancel_at"] is not None
    await end(flow, "a", ValueError())
    assert await flow.state(run) == "dead"


async def test_a_step_that_is_skipped_while_its_run_is_born_is_not_executed(
    flow: Stage, another: Connect
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c"))
    [row, *_] = await claim(flow.connection, flow.node)
    assert row["handler"] == "py:a"
    other = await another()
    async with other.transaction():
        await finish(other, [row])
        await flow.connection.fetchval("SELECT pgcron.skip_step($1, 'b')", run)
    await flow.work()
    assert "b" not in flow.began
    assert (await flow.states(run))["b"] == "skipped"


async def test_args_that_a_person_gives_count_more_than_what_paths_find(
    flow: Stage, connection: Connection
) -> None:
    paths = {"day": "$.args.day", "rows": "$.a.rows", "gone": "$.args.gone"}
    run = await flow.run(
        step("a"), step("b", "a", args={"x": 1}, args_from=paths), args={"day": "monday"}
    )
    await ask(flow, "set_step_args", run, "b", '{"day": "tuesday", "gone": null}')
    await flow.work({"a": {"rows": 3}})

    assert await flow.state(run) == "succeeded"
    args = await connection.fetchval("SELECT args FROM pgcron.runs WHERE handler = 'py:b'")
    assert json.loads(args) == {"x": 1, "day": "tuesday", "rows": 3, "gone": None}


@pytest.mark.parametrize("on_failure", ["stop", "kill"])
async def test_a_list_that_is_final_is_gone_through_although_its_workflow_stops(
    flow: Stage, on_failure: str
) -> None:
    last = step("last", for_each="$.args.list", **{"finally": True})
    run = await flow.run(step("a"), last, args={"list": [1, 2]}, on_failure=on_failure)
    await flow.work({"a": ValueError()})

    assert flow.began == ["a", "last", "last"]
    assert await flow.states(run) == {"a": "dead", "last": "succeeded"}
    assert await flow.state(run) == "dead"


async def test_a_final_list_that_fails_ends_for_its_own_reason(
    flow: Stage, connection: Connection
) -> None:
    last = step("last", for_each="$.args.list", max_parallel=1, **{"finally": True})
    run = await flow.run(step("a"), last, args={"list": [1, 2]}, on_failure="stop")
    await flow.work({"a": ValueError(), "last": ValueError()})

    assert await flow.states(run) == {"a": "dead", "last": "dead"}
    reason = "SELECT reason FROM pgcron.workflow_steps WHERE name = 'last' AND item = -1"
    assert await connection.fetchval(reason) == "1 of its items failed, 1 cancelled"


async def test_items_that_are_given_up_do_not_count_as_failed(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list", max_parallel=1, tolerate=1), args={"list": [1] * 600}
    )
    await flow.work({"a": ValueError()})

    assert await flow.states(run) == {"a": "dead"}
    [row] = await connection.fetch(
        "SELECT reason, items_failed FROM pgcron.workflow_steps WHERE item = -1"
    )
    assert tuple(row) == ("2 of its items failed, 598 cancelled", 2)


async def saga(flow: Stage, **outcomes: Any) -> int:
    """a, b and c, of which c fails; what they did is undone, and a last step is waited for."""
    run = await flow.run(
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("undo_a", compensates="a"),
        step("undo_b", compensates="b"),
        {"name": "hold", "wait_for": "approval", "finally": True},
    )
    await flow.work({"c": ValueError(), **outcomes})
    assert (await flow.states(run))["hold"] == "running"
    flow.began.clear()
    return run


@pytest.mark.parametrize(
    ("verb", "failed", "began"),
    [
        ("clear_step", ("undo_b",), ["undo_b"]),
        ("clear_step", ("undo_a", "undo_b"), ["undo_b", "undo_a"]),
        ("clear_step", (), ["undo_b"]),
        ("succeed_step", ("undo_b",), []),
        ("succeed_step", ("undo_a", "undo_b"), ["undo_a"]),
        ("skip_step", ("undo_b",), []),
    ],
)
async def test_a_compensation_that_is_corrected_lets_nothing_run_that_is_undone(
    flow: Stage, verb: str, failed: tuple[str, ...], began: list[str]
) -> None:
    run = await saga(flow, **{name: ValueError() for name in failed})
    said = await flow.connection.fetchval(f"SELECT pgcron.{verb}($1, 'undo_b', note => 'x')", run)
    if verb == "clear_step":
        assert said == len(began) + 1
    await flow.work()
    states = await flow.states(run)

    assert flow.began == began
    assert states["undo_a"] == "succeeded"
    assert states["undo_b"] == ("skipped" if verb == "skip_step" else "succeeded")
    assert states["hold"] == "running"


async def test_a_clear_repeats_what_was_undone_and_not_what_could_not_be(flow: Stage) -> None:
    run = await saga(flow, undo_b=ValueError())
    said = await flow.connection.fetchval("SELECT pgcron.clear_step($1, 'c')", run)
    assert said == 6  # undo_a had succeeded, and so a and all after it run again
    await flow.work()
    assert flow.began == ["a", "b", "c"]

    run = await saga(flow, undo_a=ValueError(), undo_b=ValueError())
    assert await flow.connection.fetchval("SELECT pgcron.clear_step($1, 'c')", run) == 4
    await flow.work()
    assert flow.began == ["c"]
    await ask(flow, "approve_step", run, "hold")
    assert await flow.state(run) == "succeeded"


async def test_compensations_run_one_by_one_although_one_between_them_is_skipped(
    flow: Stage,
) -> None:
    run = await flow.run(
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("d", "c"),
        step("undo_a", compensates="a"),
        step("undo_b", compensates="b"),
        step("last", compensates="c"),
    )
    for ended in ("a", "b", "c"):
        await flow.turn({ended: None})
    await flow.turn({"d": ValueError()})
    await flow.turn({})
    await ask(flow, "skip_step", run, "undo_b")
    await flow.turn({})
    assert flow.began[4:] == ["last"]
    await end(flow, "last")
    await flow.work()
    assert flow.began[4:] == ["last", "undo_a"]


@pytest.mark.parametrize(
    ("on_failure", "verb"), [("stop", "clear"), ("stop", "redrive"), ("kill", "redrive")]
)
async def test_a_list_that_a_failure_ends_is_gone_through_when_that_is_mended(
    flow: Stage, on_failure: str, verb: str
) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list", max_parallel=1, tolerate=10),
        step("b", "a", rule="all_ended"),
        step("c"),
        {"name": "hold", "wait_for": "approval", "finally": True},
        args={"list": [1, 2, 3, 4]},
        on_failure=on_failure,
    )
    await flow.turn({"c": ValueError()})
    await end(flow, "a", ValueError() if on_failure == "kill" else "first")
    await flow.work()
    assert (await flow.states(run))["a"] == "cancelled"
    flow.began.clear()

    if verb == "clear":
        await ask(flow, "clear_step", run, "c")
        await a_second_passes(flow)
    else:
        await ask(flow, "approve_step", run, "hold")
        run = await flow.connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work({"a": "again"})
    kept = on_failure == "stop" and verb == "redrive"
    assert sorted(flow.began) == ["a"] * (3 if kept else 4) + ["b", "c"]
    await ask(flow, "approve_step", run, "hold")
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_that_came_before_a_clear_does_not_count_after_it(
    flow: Stage, connection: Connection, approved: bool
) -> None:
    run = await flow.run(step("a"), {"name": "go", "wait_for": "approval", "after": "a"})
    await flow.work()
    async with connection.transaction():  # no node looks between the two
        said = await connection.fetchval("SELECT pgcron.approve_step($1, 'go', $2)", run, approved)
        await connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.work()

    assert said == "ended"
    assert flow.began == ["a", "a"]
    assert (await flow.states(run))["go"] == "running"
    await ask(flow, "approve_step", run, "go")
    assert await flow.state(run) == "succeeded"


async def test_a_signal_that_came_before_its_step_began_counts_after_a_clear(flow: Stage) -> None:
    run = await flow.run(step("a"), {"name": "go", "wait_for": "signal", "after": "a"})
    await ask(flow, "signal", run, "go")
    await ask(flow, "clear_step", run, "a")
    await flow.work()
    assert await flow.state(run) == "succeeded"


def named(name: str, *after: str, **keys: Any) -> dict[str, Any]:
    """A step that any node of the test may execute, whatever its name."""
    return step(name, *after, handler="py:a", **keys)


@pytest.mark.parametrize("between", [0, 250])  # 200 are written at first
async def test_a_redrive_keeps_nothing_that_comes_after_a_step_that_is_done_again(
    flow: Stage, between: int
) -> None:
    others = [step(f"s{n}", "pick", handler="py:a") for n in range(between)]
    run = await flow.run(
        named("pick"),
        named("reserve", "pick"),
        *others,
        {"name": "check", "wait_for": "approval", "after": ["reserve"]},
        named("ship", "check"),
        named("bill", "pick"),
        named("unreserve", compensates="reserve"),
    )
    await flow.work()
    await ask(flow, "approve_step", run, "check", True)
    await flow.work({"ship": ValueError()})
    assert (await flow.states(run))["unreserve"] == "succeeded"
    flow.began.clear()

    again: int = await flow.connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work()

    assert flow.began == ["reserve"]
    states = await flow.states(again)
    assert (states["check"], states["ship"]) == ("running", "waiting")
    await ask(flow, "approve_step", again, "check", True)
    await flow.work()
    assert flow.began == ["reserve", "ship"]
    assert await flow.state(again) == "succeeded"


async def test_a_redrive_keeps_what_comes_after_a_step_that_its_condition_skips_again(
    flow: Stage,
) -> None:
    join = named("join", "pick", "gift", rule="none_failed")
    gift = named("gift", "pick", when="$.args.gift == true")
    run = await flow.run(named("pick"), gift, join, named("ship", "join"))
    await flow.work({"ship": ValueError()})
    flow.began.clear()

    await flow.connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work()

    assert flow.began == ["ship"]


async def test_a_redrive_with_other_args_keeps_nothing_after_a_condition_that_may_hold_now(
    flow: Stage,
) -> None:
    steps = [
        named("pick"),
        named("gift", "pick", when="$.args.gift == true"),
        named("join", "pick", "gift", rule="none_failed"),
        named("ship", "join"),
    ]
    run = await flow.run(*steps, args={"gift": False})
    await flow.work({"ship": ValueError()})
    assert flow.began == ["pick", "join", "ship"]
    flow.began.clear()

    await flow.connection.fetchval("""SELECT pgcron.redrive($1, args => '{"gift": true}')""", run)
    await flow.work()

    assert flow.began == ["gift", "join", "ship"]


async def test_a_redrive_does_a_list_anew_that_comes_after_a_step_that_is_done_again(
    flow: Stage,
) -> None:
    each = named("each", "reserve", for_each="$.reserve")
    run = await flow.run(named("reserve"), each, named("unreserve", compensates="reserve"))
    await flow.turn({"reserve": [1, 2]})
    await flow.turn({})
    rows = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    for row, outcome in zip(rows, (None, ValueError()), strict=True):
        await flow.end([row], {row["id"]: "each"}, {"each": outcome})
    await flow.work()
    assert flow.began == ["reserve", "each", "each", "unreserve"]
    flow.began.clear()

    await flow.connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work({"reserve": [1, 2]})

    assert flow.began == ["reserve", "each", "each"]
