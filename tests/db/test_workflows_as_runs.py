"""What holds for runs holds for workflows: overlap, redrives, rights."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest

from tests.db.control import Connection, admit, call, claim_both, fail, join, put_schedule
from tests.db.roles import Become, verdicts
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


@pytest.mark.parametrize(
    ("overlap", "outcome", "began"),
    [
        ("queue", "succeeded", ["last", "a", "last"]),
        ("replace", "cancelled", ["last", "a", "last"]),
        ("terminate", "cancelled", ["a", "last"]),
    ],
)
async def test_a_workflow_keeps_its_overlap_slot_until_it_is_over(
    flow: Stage, connection: Connection, overlap: str, outcome: str, began: list[str]
) -> None:
    await flow.put("w", step("a"), step("last", **{"finally": True}))
    await put_schedule(connection, "s", spec="@daily", handler="workflow:w", overlap=overlap)
    runs = []
    for _ in range(2):
        runs.append(await connection.fetchval("SELECT pgcron.run_now('s')"))
        await admit(connection)
        await flow.turn({})
    assert [await flow.state(run) for run in runs] == ["blocked", "blocked"]
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = 'py:a'")
    assert (row["cancel_at"] is None, row["kill_at"] is None) == (
        overlap == "queue",
        overlap != "terminate",
    )
    ends = {"a": None} if overlap == "queue" else {"a": ValueError()}
    await flow.end([row], {row["id"]: "a"}, ends)
    flow.began.clear()
    for _ in range(3):
        await flow.work()
        await admit(connection)
    assert [await flow.state(run) for run in runs] == [outcome, "succeeded"]
    assert flow.began == began


async def test_a_redrive_of_a_redrive_keeps_its_version_when_that_was_deleted(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(step("a"), step("b", "a"), step("c", "b"))
    await flow.work({"a": 1, "b": ValueError()})
    await connection.execute("SELECT pgcron.delete_workflow('w')")
    run = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work({"b": 2, "c": ValueError()})
    run = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work()
    assert flow.began == ["a", "b", "b", "c", "c"]
    assert json.loads(flow.results["c"]) == {"b": 2}
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_that_a_schedule_starts_is_not_deleted(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("w", step("a"))
    await connection.execute("SELECT pgcron.put_schedule('often', 'every 1h', 'workflow:w')")
    with pytest.raises(asyncpg.PostgresError, match="workflow 'w' is used") as refused:
        await connection.execute("SELECT pgcron.delete_workflow('w')")
    assert refused.value.as_dict()["detail"] == "By schedule often."
    await connection.execute("SELECT pgcron.delete_schedule('often')")
    await connection.execute("SELECT pgcron.delete_workflow('w')")


async def test_a_redrive_keeps_the_items_of_a_list_that_succeeded(
    flow: Stage, connection: Connection
) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list"), step("b", "a"), args={"list": [1, 2, 3, 4]}
    )
    rows = await claim_both(connection, flow.node, 9)
    names = {row["id"]: "a" for row in rows}
    await flow.end(rows[:2], names, {"a": "fine"})
    await flow.end(rows[2:3], names, {"a": ValueError()})
    await flow.advance()
    await flow.end(rows[3:], names, {"a": ValueError()})
    await flow.advance()
    assert await flow.state(run) == "dead"

    run = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work({"a": "new"})
    assert flow.began == ["a", "a", "b"]
    assert json.loads(flow.results["b"]) == {"a": ["fine", "fine", "new", "new"]}
    assert await flow.state(run) == "succeeded"


@pytest.mark.parametrize("is_done_again", [False, True])
async def test_a_redrive_keeps_the_items_that_the_redrive_before_it_did_not_come_to(
    flow: Stage, connection: Connection, is_done_again: bool
) -> None:
    """Unless their list was to be run again there, as what it comes after had failed."""
    each = step("a", "b", for_each="$.args.list", rule="all_ended")
    run = await flow.run(step("b"), each, args={"list": [1, 2, 3]})
    await flow.turn({"b": ValueError() if is_done_again else None})
    rows = await claim_both(connection, flow.node, 9)
    names = {row["id"]: "a" for row in rows}
    await flow.end(rows[:2], names, {"a": "fine"})
    await flow.end(rows[2:], names, {"a": ValueError()})
    await flow.advance()

    run = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    [root] = await claim_both(connection, flow.node, 9)
    given = {"run_ids": [root["id"]], "tokens": [root["token"]], "node_name": "n"}
    await call(connection, "start_claimed_workflows", **given)
    if is_done_again:
        [row] = await claim_both(connection, flow.node, 9)
        await flow.end([row], {row["id"]: "b"}, {"b": None})
    await connection.execute("UPDATE pgcron.workflow_run SET deadline = now() WHERE run = $1", run)
    await flow.work()
    assert (await flow.state(run), flow.began) == ("dead", ["b"])

    run = await connection.fetchval("SELECT pgcron.redrive($1)", run)
    await flow.work({"a": "new"})
    assert flow.began == ["b", *["a"] * (3 if is_done_again else 1)]
    assert (await flow.states(run))["b"] == "succeeded"


async def test_a_definition_without_a_name_is_that_of_its_run_alone(
    flow: Stage, connection: Connection
) -> None:
    definition = json.dumps({"steps": [step("a")]})
    run = await connection.fetchval("SELECT pgcron.start_workflow($1::jsonb)", definition)
    other = await connection.fetchval("SELECT pgcron.enqueue('workflow:ad_hoc')")
    await flow.work()
    assert (await flow.state(run), await flow.state(other)) == ("succeeded", "dead")


@pytest.mark.parametrize("part", ["operator", "scheduler", "producer", "viewer"])
async def test_each_part_may_do_its_part_with_workflows(
    flow: Stage, connection: Connection, become: Become, part: str
) -> None:
    await flow.put("v", step("c"))
    dead = await flow.start("v")
    await fail(connection, await claim_both(connection, flow.node, 9), retryable=False)
    await flow.advance()
    waits = ({"name": "go", "wait_for": "signal"}, {"name": "ok", "wait_for": "approval"})
    run = await flow.run(step("a"), step("b", "a"), *waits)
    definition = json.dumps({"steps": [step("a")]})
    defines = {
        f"SELECT pgcron.put_workflow('x', '{definition}')",
        "SELECT pgcron.delete_workflow('w')",
    }
    starts = {"SELECT pgcron.start_workflow('w'::text)"}
    operates = {
        f"SELECT pgcron.{call}"
        for call in (
            *(f"signal({run}, 'go')", f"approve_step({run}, 'ok')", f"skip_step({run}, 'a')"),
            *(f"succeed_step({run}, 'b')", f"clear_step({run}, 'a')", f"pause_workflow({run})"),
            *(f"set_step_args({run}, 'b', '{{}}')", f"resume_workflow({run})"),
            *(f"cancel_run({run})", f"kill_run({run})", f"redrive({dead})", f"retry_run({dead})"),
        )
    }
    looks = {
        f"SELECT * FROM pgcron.{view}" for view in ("workflows", "workflow_runs", "workflow_steps")
    }
    may = {
        "operator": starts | operates | looks,
        "scheduler": defines | looks,
        "producer": starts,
        "viewer": looks,
    }[part]
    session = await become(part)

    got = await verdicts(session, *(defines | starts | operates | looks))

    assert {each for each, code in got.items() if code == "00000"} == may
    assert set(got.values()) <= {"00000", "42501"}


async def test_a_producer_does_not_learn_which_workflows_there_are(
    flow: Stage, connection: Connection, become: Become
) -> None:
    for name in ("secret", "mail-1"):
        await flow.put(name, step("a"))
    session = await become("producer", queues=["mail"], handlers=["workflow:mail*"])
    for name, code in (
        ("secret", "PC013"),
        ("none", "PC013"),
        ("mail-1", "00000"),
        ("mail-2", "PC010"),
    ):
        for called in (
            "judge_start('{}', 'mail', 5)",
            "start_workflow('{}'::text, queue => 'mail')",
        ):
            said = f"SELECT pgcron.{called.format(name)}"
            assert await verdicts(session, said) == {said: code}
    listed = "SELECT name FROM pgcron.workflow_definition"
    assert await verdicts(session, listed) == {listed: "42501"}


async def test_an_operator_ends_steps_in_no_other_way_than_people_do(
    flow: Stage, connection: Connection, become: Become
) -> None:
    run = await flow.run(step("a"))
    session = await become("operator")
    end = f"SELECT pgcron.end_step({run}, 'a', 'gone', NULL, 'x', NULL, NULL, 'y')"
    got = await verdicts(session, end)
    assert set(got.values()) == {"42501"}


@pytest.mark.parametrize(
    ("kind", "verb", "other"),
    [("approval", "signal", "approve_step"), ("signal", "approve_step", "signal")],
)
async def test_a_step_takes_only_what_it_waits_for(
    flow: Stage, connection: Connection, kind: str, verb: str, other: str
) -> None:
    run = await flow.run({"name": "go", "wait_for": kind})
    with pytest.raises(asyncpg.PostgresError, match="step 'go' waits for no") as refused:
        await connection.execute(f"SELECT pgcron.{verb}($1, 'go')", run)
    assert refused.value.sqlstate == "PC011"
    await flow.advance()
    assert await flow.states(run) == {"go": "running"}

    assert await connection.fetchval(f"SELECT pgcron.{other}($1, 'go')", run) == "ended"
    await flow.advance()
    assert await flow.state(run) == "succeeded"
    with pytest.raises(asyncpg.PostgresError, match="is over") as refused:
        await connection.execute(f"SELECT pgcron.{other}($1, 'go')", run)
    assert "does all of it anew" in refused.value.as_dict()["hint"]


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("$.a.rows", 'its condition is a JSON number, and neither true nor false: $."a"."rows"'),
        ("$.a.x", 'its condition is nothing, and neither true nor false: $."a"."x"'),
        ("$.a.rows > 9", 'its condition does not hold: ($."a"."rows" > 9)'),
        ("$.a.bad", 'its condition does not hold: $."a"."bad"'),
        ("$.a.good", None),
    ],
)
async def test_a_condition_that_skips_a_step_says_what_it_found(
    flow: Stage, connection: Connection, when: str, reason: str | None
) -> None:
    run = await flow.run(step("a"), step("b", "a", when=when))
    await flow.work({"a": {"rows": 3, "bad": False, "good": True}})
    assert (await flow.states(run))["b"] == ("skipped" if reason else "succeeded")
    query = "SELECT reason FROM pgcron.workflow_steps WHERE name = 'b'"
    assert await connection.fetchval(query) == reason


async def test_a_workflow_that_contains_itself_is_refused(flow: Stage) -> None:
    with pytest.raises(asyncpg.PostgresError, match=r"'w': step 1 \('in'\): it is the workflow"):
        await flow.put("w", {"name": "in", "handler": "workflow:w"})
    await flow.put("v", {"name": "inner", "handler": "workflow:w"})
    run = await flow.run({"name": "inner", "handler": "workflow:v"})
    await flow.work()
    assert await flow.state(run) == "dead"


async def test_two_workflows_may_change_which_of_them_contains_the_other(flow: Stage) -> None:
    await flow.put("v", step("a"))
    await flow.put("w", {"name": "in", "handler": "workflow:v"})
    await flow.put("v", {"name": "in", "handler": "workflow:w"})
    await flow.put("w", step("a"))
    run = await flow.start("v")
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_workflows_are_nested_ten_deep_at_most(connection: Connection) -> None:
    names = [f"w{level}" for level in range(11)]
    flow = Stage(
        connection, await join(connection, handlers=["py:a", *(f"workflow:{n}" for n in names)])
    )
    await flow.put("w10", step("a"))
    for above, below in reversed([*pairwise(names)]):
        await flow.put(above, {"name": "in", "handler": f"workflow:{below}"})
    deepest = await flow.start("w1")
    too_deep = await flow.start("w0")
    await flow.work()
    assert await flow.state(deepest) == "succeeded"
    assert await flow.state(too_deep) == "dead"


async def test_a_workflow_has_the_timeout_that_it_is_enqueued_with_and_no_other(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("w", step("a"))
    many = '[{"handler": "workflow:w", "timeout": "60 min"}, {"handler": "workflow:w"}]'
    runs = [
        await connection.fetchval(f"SELECT pgcron.enqueue('workflow:w'{given})")
        for given in (", timeout => '1 hour'", "", ", timeout => '1 hour', unique_key => 'k'")
    ]
    runs += await connection.fetchval(f"SELECT pgcron.enqueue_many('{many}')")
    await flow.turn({})
    limited = await connection.fetch(
        "SELECT run FROM pgcron.workflow_run WHERE deadline - started_at = '1 hour' ORDER BY run"
    )
    assert [row["run"] for row in limited] == sorted([runs[0], runs[2], runs[3]])


@pytest.mark.parametrize("how", ["cancel", "kill", "fail", "refuse"])
async def test_a_workflow_that_ends_before_it_has_begun_is_over(
    flow: Stage, connection: Connection, how: str
) -> None:
    await flow.put("w", step("a"))
    dead = await flow.start()
    await flow.work({"a": ValueError()})
    assert await flow.state(dead) == "dead"
    run = await connection.fetchval("SELECT pgcron.redrive($1)", dead)
    if how in ("cancel", "kill"):
        await connection.execute(f"SELECT pgcron.{how}_run($1)", run)
    else:
        [row] = await claim_both(connection, flow.node, 9)
        assert row["id"] == run
        if how == "fail":
            await fail(connection, [row], retryable=False)
        else:
            query = "SELECT pgcron.end_refused_run($1, $2, 'it is refused')"
            assert await connection.fetchval(query, run, row["token"])
    await flow.advance()

    query = "SELECT outcome FROM pgcron.workflow_run WHERE run = $1 AND ended_at IS NOT NULL"
    assert await connection.fetchval(query, run) == await flow.state(run)
    for verb in (f"signal({run}, 'a')", f"pause_workflow({run})"):
        with pytest.raises(asyncpg.PostgresError, match="is over"):
            await connection.execute(f"SELECT pgcron.{verb}")


async def test_the_check_finds_a_workflow_whose_run_is_gone_before_it_began(
    flow: Stage, connection: Connection
) -> None:
    definition = json.dumps({"steps": [step("a")]})
    run = await connection.fetchval("SELECT pgcron.start_workflow($1::jsonb)", definition)
    await flow.check()
    await connection.execute("DELETE FROM pgcron.run")
    [row] = await connection.fetch("SELECT * FROM pgcron.check_workflows()")
    assert (row["run_id"], row["problem"]) == (run, "its run is gone, and it is not over")
    await connection.execute("DELETE FROM pgcron.workflow_run")


@pytest.mark.parametrize(
    ("items", "outcome", "result"),
    [([], None, []), ([1, 2], None, [None, None]), ([1], ValueError(), [None])],
)
async def test_a_list_has_a_result_although_no_item_has_one(
    flow: Stage, connection: Connection, items: list[int], outcome: object, result: list[None]
) -> None:
    run = await flow.run(
        step("a", for_each="$.args.list", tolerate=1),
        step("b", "a", args_from={"value": "$.a"}),
        args={"list": items},
    )
    await flow.work({"a": outcome})

    assert await flow.states(run) == {"a": "succeeded", "b": "succeeded"}
    args = await connection.fetchval("SELECT args FROM pgcron.runs WHERE handler = 'py:b'")
    assert json.loads(args) == {"value": result}


async def test_the_time_limits_of_a_turn_of_a_loop_begin_when_it_is_due(
    flow: Stage, connection: Connection
) -> None:
    repeat = {"while": "$.busy == true", "at_most": 2, "every": "1 hour"}
    limits = {"start_within": "1 minute", "give_up_after": "2 minutes"}
    await flow.run(step("a", repeat=repeat, **limits))
    await flow.turn({"a": {"busy": True}})

    [row] = await connection.fetch(
        "SELECT due_at > now() + interval '50 minutes' AS is_later, expire_at - due_at AS starts,"
        " pgcron.give_up_at(time_limits) - due_at AS gives_up FROM pgcron.run WHERE origin = 'step'"
    )
    assert tuple(row) == (True, timedelta(minutes=1), timedelta(minutes=2))
