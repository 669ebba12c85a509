"""Workflows: dependencies, rules, results, lists, waits, what stops them, and again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def test_a_chain_runs_in_order_and_ends_with_its_last_result(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c", "b"))
    assert await flow.states(run) == {"a": "running", "b": "waiting", "c": "waiting"}
    assert await flow.state(run) == "blocked"

    await flow.work({"c": {"rows": 3}})

    assert flow.began == ["a", "b", "c"]
    assert set((await flow.states(run)).values()) == {"succeeded"}
    assert (await flow.state(run), await flow.result(run)) == ("succeeded", {"rows": 3})


async def test_a_join_begins_when_all_that_it_waits_for_have_succeeded(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"), step("c", "a", "b"))
    await flow.turn({"a": 1, "b": 2})
    assert flow.began == ["a", "b"]
    await flow.work()

    assert flow.began == ["a", "b", "c"]
    assert json.loads(flow.results["c"]) == {"a": 1, "b": 2}
    assert await flow.state(run) == "succeeded"


async def test_a_failure_ends_what_depends_on_it_and_the_workflow_and_no_other_step(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c"))
    await flow.work({"a": ValueError("no")})

    assert await flow.states(run) == {"a": "dead", "b": "upstream_failed", "c": "succeeded"}
    assert await flow.state(run) == "dead"
    [letter] = await connection.fetch("SELECT run_id, error FROM pgcron.dead_letters")
    assert letter["run_id"] == run
    assert "step a dead" in letter["error"]


async def test_the_steps_of_a_version_that_runs_stay_as_they_are(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    assert await flow.put("w", step("a"), step("c", "a")) == 2
    assert await flow.put("w", step("a"), step("c", "a")) == 2

    await flow.work()
    assert list(await flow.states(run)) == ["a", "b"]
    assert list(await flow.states(await flow.start())) == ["a", "c"]


_ENDS = [
    ("good", "good"),
    ("good", "bad"),
    ("good", "skip"),
    ("bad", "bad"),
    ("bad", "skip"),
    ("skip", "skip"),
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    {
        "all_succeeded": [
            "succeeded",
            "upstream_failed",
            "skipped",
            "upstream_failed",
            "upstream_failed",
            "skipped",
        ],
        "all_ended": ["succeeded"] * 6,
        "one_succeeded": [
            "succeeded",
            "succeeded",
            "succeeded",
            "upstream_failed",
            "upstream_failed",
            "skipped",
        ],
        "one_failed": ["skipped", "succeeded", "skipped", "succeeded", "succeeded", "skipped"],
        "none_failed": [
            "succeeded",
            "upstream_failed",
            "succeeded",
            "upstream_failed",
            "upstream_failed",
            "succeeded",
        ],
    }.items(),
)
async def test_a_rule_decides_by_how_the_steps_before_ended(
    flow: Stage, rule: str, expected: list[str]
) -> None:
    def parent(name: str, end: str) -> dict[str, Any]:
        return step(name, **({"when": "false"} if end == "skip" else {}))

    for (a, b), state in zip(_ENDS, expected, strict=True):
        run = await flow.run(parent("a", a), parent("b", b), step("c", "a", "b", rule=rule))
        ends = {"a": a, "b": b}
        await flow.work({name: ValueError() for name, end in ends.items() if end == "bad"})

        assert (await flow.states(run))["c"] == state, (a, b)
        assert await flow.state(run) == ("dead" if "bad" in (a, b) else "succeeded"), (a, b)


async def test_an_optional_step_that_fails_counts_as_good(flow: Stage) -> None:
    run = await flow.run(step("a", optional=True), step("b", "a"))
    await flow.work({"a": ValueError()})

    assert await flow.states(run) == {"a": "dead", "b": "succeeded"}
    assert await flow.state(run) == "succeeded"


async def test_a_condition_and_args_read_results_and_the_args_of_the_workflow(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a"),
        step("b", "a", when="$.a.rows > 10"),
        step(
            "c",
            "a",
            when="$.a.rows <= 10",
            args={"x": 1},
            args_from={"rows": "$.a.rows", "day": "$.args.day"},
        ),
        step("d", "b", "c", rule="none_failed"),
        args={"day": "monday"},
    )
    await flow.work({"a": {"rows": 3}})

    assert await flow.states(run) == {
        "a": "succeeded",
        "b": "skipped",
        "c": "succeeded",
        "d": "succeeded",
    }
    args = await connection.fetchval("SELECT args FROM pgcron.runs WHERE handler = 'py:c'")
    assert json.loads(args) == {"x": 1, "rows": 3, "day": "monday"}


async def test_a_path_that_finds_nothing_fails_its_step_alone(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a", args_from={"day": "$.args.day"}), step("b"))
    await flow.work()

    assert await flow.states(run) == {"a": "dead", "b": "succeeded"}
    reason = await connection.fetchval("SELECT reason FROM pgcron.workflow_steps WHERE name = 'a'")
    assert reason == "its arg day finds nothing at $.args.day"


async def test_compensations_undo_in_reverse_what_had_succeeded(
    flow: Stage, connection: Connection
) -> None:
    steps = (
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("undo_a", compensates="a"),
        step("undo_b", compensates="b"),
        step("last", **{"finally": True}),
    )
    run = await flow.run(*steps)
    await flow.work({"c": ValueError()})
    assert flow.began == ["a", "b", "c", "undo_b", "undo_a", "last"]
    assert await flow.state(run) == "dead"
    error = await connection.fetchval("SELECT error FROM pgcron.history WHERE id = $1", run)
    assert error.endswith("; compensated: a, b")

    flow.began.clear()
    run = await flow.start()
    await flow.work({"b": ValueError()})
    assert flow.began == ["a", "b", "undo_a", "last"]
    assert (await flow.states(run))["undo_b"] == "skipped"

    flow.began.clear()
    run = await flow.start()
    await flow.work()
    assert flow.began == ["a", "b", "c", "last"]
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(("policy", "b"), [("stop", "succeeded"), ("kill", "cancelled")])
async def test_on_failure_no_other_step_begins(
    flow: Stage, connection: Connection, policy: str, b: str
) -> None:
    run = await flow.run(step("a"), step("b"), step("c", "b"), on_failure=policy)
    await flow.turn({"a": ValueError()})  # b goes on
    asked = await connection.fetchval(
        "SELECT cancel_at IS NOT NULL FROM pgcron.run WHERE handler = 'py:b'"
    )
    assert asked is (policy == "kill")
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:b'")
    if policy == "kill":
        await flow.end([row], {row["id"]: "b"}, {"b": ValueError()})
    else:
        await flow.end([row], {row["id"]: "b"}, {"b": None})
    await flow.advance()

    assert await flow.states(run) == {"a": "dead", "b": b, "c": "upstream_failed"}
    assert await flow.state(run) == "dead"


async def test_what_waits_for_people_ends_with_a_failure_that_stops_the_workflow(
    flow: Stage, connection: Connection
) -> None:
    approval = {"name": "b", "wait_for": "approval"}
    run = await flow.run(step("a"), approval, on_failure="stop")
    await flow.turn({"a": ValueError("boom")})
    await flow.advance()

    assert await flow.states(run) == {"a": "dead", "b": "upstream_failed"}
    assert await flow.state(run) == "dead"
    error = await connection.fetchval("SELECT error FROM pgcron.history WHERE id = $1", run)
    assert error == "step a dead: it went wrong (and 1 more)"


async def test_a_list_is_gone_through_and_joined_in_order(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a"), step("b", "a", for_each="$.a.files", max_parallel=2), step("c", "b")
    )
    await flow.turn({"a": {"files": ["x", "y", "z"]}})
    assert await flow.turn({}) == ["b", "b"]
    rows = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:b' ORDER BY id")
    assert [json.loads(row["args"]) for row in rows] == [{"item": "x"}, {"item": "y"}]
    for row in reversed(rows):
        item = json.loads(row["args"])["item"]
        await flow.end([row], {row["id"]: "b"}, {"b": item.upper()})
    await flow.advance()
    await flow.work({"b": "Z"})

    assert json.loads(flow.results["c"]) == {"b": ["X", "Y", "Z"]}
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(("tolerate", "state"), [(0, "dead"), (1, "succeeded")])
async def test_items_may_fail_as_often_as_tolerated(
    flow: Stage, connection: Connection, tolerate: int, state: str
) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list", max_parallel=1, tolerate=tolerate),
        args={"list": [1, 2, 3]},
    )
    await flow.turn({"a": ValueError("no")})
    await flow.work()

    assert await flow.states(run) == {"a": state}
    assert len(flow.began) == (1 if tolerate == 0 else 3)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"list": 3}, '$."args"."list" is a JSON number, and not a list'),
        ({}, '$."args"."list" is nothing, and not a list'),
        ({"list": [0] * 10001}, '$."args"."list" has 10001 items; a list has at most 10000'),
    ],
)
async def test_what_is_no_list_or_too_long_fails_its_step(
    flow: Stage, connection: Connection, given: dict[str, Any], reason: str
) -> None:
    run = await flow.run(step("a", for_each="$.args.list"), step("b"), args=given)
    await flow.work()

    assert await flow.states(run) == {"a": "dead", "b": "succeeded"}
    found = await connection.fetchval("SELECT reason FROM pgcron.workflow_steps WHERE name = 'a'")
    assert found == reason


async def test_an_empty_list_is_over_at_once(flow: Stage) -> None:
    run = await flow.run(step("a", for_each="$.args.list"), step("b", "a"), args={"list": []})
    await flow.work()
    assert await flow.states(run) == {"a": "succeeded", "b": "succeeded"}


async def test_a_step_is_repeated_while_its_result_says_so(flow: Stage) -> None:
    repeat = {"while": '$.status == "busy"', "at_most": 5, "every": "1 microsecond"}
    run = await flow.run(step("a", repeat=repeat), step("b", "a"))
    await flow.turn({"a": {"status": "busy"}})
    await flow.turn({"a": {"status": "busy"}})
    await flow.work({"a": {"status": "done"}})

    assert flow.began == ["a", "a", "a", "b"]
    assert await flow.state(run) == "succeeded"


async def test_a_repeat_whose_run_is_refused_says_why(flow: Stage) -> None:
    run = await flow.run(step("a", repeat={"while": "$.busy == true", "at_most": 3}))
    await flow.connection.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no more of them'; END $$;"
        " CREATE TRIGGER refuse BEFORE INSERT ON pgcron.run FOR EACH ROW"
        " EXECUTE FUNCTION public.refuse()"
    )
    await flow.work({"a": {"busy": True}})

    assert await flow.states(run) == {"a": "dead"}
    reason = await flow.connection.fetchval("SELECT reason FROM pgcron.workflow_steps")
    assert reason == "it can't begin: no more of them"


async def test_a_step_is_not_repeated_more_often_than_it_may(flow: Stage) -> None:
    repeat = {"while": "$.busy == true", "at_most": 3, "every": "1 microsecond"}
    run = await flow.run(step("a", repeat=repeat))
    await flow.work({"a": {"busy": True}})

    assert flow.began == ["a", "a", "a"]
    assert await flow.states(run) == {"a": "dead"}


async def test_a_signal_ends_its_step_with_its_payload_also_when_it_came_before(
    flow: Stage, connection: Connection
) -> None:
    waits = {"name": "go", "wait_for": "signal", "after": "a"}
    run = await flow.run(step("a"), waits, step("b", "go"))
    send = "SELECT pgcron.signal($1, 'go', $2, 'by bank', 'ana')"
    assert await connection.fetchval(send, run, '{"n": 0}') == "kept"
    assert await connection.fetchval(send, run, '{"n": 1}') == "kept"
    await flow.work()
    assert json.loads(flow.results["b"]) == {"go": {"n": 1}}
    why = "SELECT reason FROM pgcron.workflow_steps WHERE run_id = $1 AND name = 'go'"
    assert await connection.fetchval(why, run) == "signal by ana: by bank"
    with pytest.raises(asyncpg.PostgresError, match="is over") as refused:
        await connection.fetchval(send, run, "{}")
    assert refused.value.sqlstate == "PC011"

    run = await flow.start()
    await flow.work()
    assert (await flow.states(run))["go"] == "running"
    assert await connection.fetchval(send, run, '{"n": 2}') == "ended"
    await flow.advance()
    await flow.work()
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize(("approved", "state"), [(True, "succeeded"), (False, "dead")])
async def test_an_approval_names_who_decided(
    flow: Stage, connection: Connection, approved: bool, state: str
) -> None:
    run = await flow.run({"name": "go", "wait_for": "approval"}, step("b", "go"))
    await connection.fetchval(
        "SELECT pgcron.approve_step($1, 'go', $2, 'looks fine', 'ana')", run, approved
    )
    await flow.advance()
    await flow.work()

    assert (await flow.states(run))["go"] == state
    reason = await connection.fetchval("SELECT reason FROM pgcron.workflow_steps WHERE name = 'go'")
    assert reason == f"{'approved' if approved else 'rejected'} by ana: looks fine"


@pytest.mark.parametrize(
    ("kind", "then", "state"),
    [
        ("timer", None, "succeeded"),
        ("approval", None, "dead"),
        ("signal", "skip", "skipped"),
        ("signal", "succeed", "succeeded"),
    ],
)
async def test_a_deadline_says_what_then(
    flow: Stage, connection: Connection, kind: str, then: str | None, state: str
) -> None:
    wait = {"name": "go", "wait_for": kind, "deadline": "1 hour"}
    run = await flow.run(wait | ({"at_deadline": then} if then else {}))
    assert await flow.states(run) == {"go": "running"}
    await connection.execute("UPDATE pgcron.step SET due = now() WHERE due IS NOT NULL")
    await flow.advance()

    assert await flow.states(run) == {"go": state}


async def test_a_workflow_is_a_step_of_another(flow: Stage, connection: Connection) -> None:
    await flow.put("v", step("a"), step("b", "a"))
    run = await flow.run({"name": "inner", "handler": "workflow:v"}, step("c", "inner"))
    await flow.work({"b": 7})

    assert flow.began == ["a", "b", "c"] or flow.began[1:] == ["a", "b", "c"]
    assert json.loads(flow.results["c"]) == {"inner": 7}
    assert await flow.state(run) == "succeeded"


async def test_a_canceled_workflow_ends_what_executes_and_runs_what_is_final(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("last", **{"finally": True}))
    await flow.turn({})
    assert await connection.fetchval("SELECT pgcron.cancel_run($1, 'wrong', 'ana')", run) == (
        "requested"
    )
    await flow.advance()
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    assert row["cancel_at"] is not None
    await flow.end([row], {row["id"]: "a"}, {"a": ValueError()})
    await flow.work()

    assert await flow.states(run) == {"a": "cancelled", "b": "upstream_failed", "last": "succeeded"}
    assert await flow.state(run) == "cancelled"


async def test_a_killed_workflow_begins_nothing_more(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"), step("last", **{"finally": True}))
    await flow.turn({})
    await connection.fetchval("SELECT pgcron.kill_run($1)", run)
    await flow.advance()
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    assert row["kill_at"] is not None
    await flow.end([row], {row["id"]: "a"}, {"a": ValueError()})
    await flow.work()

    assert flow.began == ["a"]
    assert await flow.states(run) == {"a": "cancelled", "last": "cancelled"}
    assert await flow.state(run) == "cancelled"


async def test_a_paused_workflow_begins_no_step_until_it_is_resumed(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    await connection.execute("SELECT pgcron.pause_workflow($1, 'a move', 'ana')", run)
    await flow.work()
    assert await flow.states(run) == {"a": "succeeded", "b": "ready"}
    await connection.execute("SELECT pgcron.resume_workflow($1)", run)
    await flow.advance()
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_no_more_steps_execute_at_once_than_its_parallelism(flow: Stage) -> None:
    run = await flow.run(step("a"), step("b"), step("c"), step("d", "a", "b", "c"), parallelism=1)
    assert await flow.turn({"a": 1}) == ["a"]
    assert await flow.turn({}) == ["b"]
    assert await flow.turn({}) == []
    assert (await flow.states(run))["c"] == "ready"
    await flow.connection.execute(
        "SELECT pgcron.succeed_step($1, 'b', '5', 'done elsewhere', 'ana')", run
    )
    [row] = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:b'")
    await flow.end([row], {row["id"]: "b"}, {"b": ValueError()})
    await flow.advance()
    await flow.work()
    assert json.loads(flow.results["d"]) == {"a": 1, "b": 5}
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_is_not_over_before_what_a_step_ended_by_hand_depends_on(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("last", **{"finally": True}))
    await flow.turn({})
    await connection.execute("SELECT pgcron.succeed_step($1, 'b', '7')", run)
    await flow.advance()
    assert await flow.states(run) == {"a": "running", "b": "succeeded", "last": "waiting"}

    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    await flow.end([row], {row["id"]: "a"}, {"a": None})
    await flow.advance()
    await flow.work()
    assert flow.began == ["a", "last"]
    assert await flow.state(run) == "succeeded"


async def test_a_cleared_step_and_what_is_below_it_run_again(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c", "b"), step("d"))
    await flow.turn({"a": 1})
    await flow.turn({"b": 2})
    assert await connection.fetchval("SELECT pgcron.clear_step($1, 'b')", run) == 2
    await flow.advance()
    assert await flow.states(run) == {
        "a": "succeeded",
        "b": "running",
        "c": "waiting",
        "d": "running",
    }
    await flow.work()
    assert flow.began == ["a", "d", "b", "b", "c"]
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:d'")
    await flow.end([row], {row["id"]: "d"}, {"d": None})
    await flow.advance()
    assert await flow.state(run) == "succeeded"


async def test_what_executes_is_ended_before_its_step_begins_again(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    await flow.turn({"a": 1})
    await flow.turn({})  # b executes
    await connection.fetchval("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.advance()
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:b'")
    assert row["cancel_at"] is not None
    assert (await flow.states(run))["a"] == "succeeded"
    await flow.end([row], {row["id"]: "b"}, {"b": None})
    await flow.advance()
    await flow.work()

    assert flow.began == ["a", "b", "a", "b"]
    assert await flow.state(run) == "succeeded"


async def test_a_redrive_keeps_what_succeeded(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c", "b"))
    await flow.work({"a": 1, "b": ValueError()})
    assert await flow.state(run) == "dead"
    flow.began.clear()

    again = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work()

    assert flow.began == ["b", "c"]
    assert json.loads(flow.results["b"]) == {"a": 1}
    assert await flow.state(again) == "succeeded"


async def test_a_workflow_whose_time_is_over_is_ended(flow: Stage, connection: Connection) -> None:
    run = await flow.run(step("a"), step("last", **{"finally": True}), timeout="1 hour")
    await flow.turn({})
    await connection.execute("UPDATE pgcron.workflow_run SET deadline = now()")
    await flow.advance()
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    await flow.end([row], {row["id"]: "a"}, {"a": ValueError()})
    await flow.work()

    assert await flow.state(run) == "dead"
    assert flow.began == ["a", "last"]
    error = await connection.fetchval("SELECT error FROM pgcron.runs WHERE id = $1", run)
    assert error.startswith("its timeout is over")


async def test_wide_steps_are_released_in_chunks(flow: Stage) -> None:
    wide = [step(f"s{n}", "a", handler="py:b") for n in range(1200)]
    run = await flow.run(step("a"), *wide, step("c", *(each["name"] for each in wide)))
    await flow.work({"a": 1})

    assert len(flow.began) == 1202
    assert flow.began[-1] == "c"
    assert await flow.state(run) == "succeeded"


async def test_a_child_that_somebody_has_locked_is_told_later(
    flow: Stage, connection: Connection, another: Any
) -> None:
    run = await flow.run(step("a"), step("b", "a"))
    other = await another()
    async with other.transaction():
        await other.execute(
            "SELECT FROM pgcron.step WHERE workflow = $1 AND number = 2 FOR UPDATE", run
        )
        rows = await flow.connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
        assert len(rows) == 1
        await asyncio_wait_for_end(flow)
        assert await connection.fetchval("SELECT count(*) FROM pgcron.step_outbox") == 1
    await flow.advance()
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def asyncio_wait_for_end(flow: Stage) -> None:
    from tests.db.control import call, claim

    rows = await claim(flow.connection, flow.node)
    await call(
        flow.connection,
        "finish_runs",
        run_ids=[row["id"] for row in rows],
        tokens=[row["token"] for row in rows],
        elapsed_seconds=[0.1] * len(rows),
        results=None,
        without_args=None,
        node="n",
    )
