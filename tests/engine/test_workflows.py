"""Workflows that nodes execute."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha import Context
from pgcron_ha.errors import InvalidInput
from tests.db.control import Connect, Connection
from tests.engine.test_node import Handlers, Start, handlers, is_in, living, settings
from tests.product.engine import WORKFLOWS
from tests.waiting import until

__all__ = ["handlers", "settings"]


async def put(connection: Connection, name: str, *steps: dict[str, Any]) -> None:
    await connection.execute(
        "SELECT pgcron.put_workflow($1, $2)", name, json.dumps({"steps": steps})
    )


async def test_a_node_executes_a_workflow_that_was_defined_after_it_began(
    settings: Start, handlers: Handlers, connection: Connection, tmp_path: Path
) -> None:
    async with living(settings(), handlers):
        await put(
            connection,
            "etl",
            {"name": "a", "handler": "py:fine", "args": {"number": 21}},
            {
                "name": "b",
                "handler": "py:fine",
                "after": "a",
                "args_from": {"number": "$.a.doubled"},
            },
            {"name": "c", "handler": "py:plain", "after": ["a", "b"]},
        )
        run = await connection.fetchval("SELECT pgcron.start_workflow('etl')")
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    rows = await connection.fetch("SELECT name, state, result FROM pgcron.workflow_steps")
    assert {row["name"]: (row["state"], row["result"]) for row in rows} == {
        "a": ("succeeded", '{"doubled": 42}'),
        "b": ("succeeded", '{"doubled": 84}'),
        "c": ("succeeded", "0"),
    }
    assert await connection.fetch("SELECT * FROM pgcron.check_workflows()") == []


@pytest.mark.parametrize("count", [300])
async def test_a_list_and_a_failure_are_settled_by_the_service(
    settings: Start, handlers: Handlers, connection: Connection, count: int
) -> None:
    @handlers.app.handler("breaks", max_attempts=1)
    async def breaks(item: int) -> None:
        if item == 7:
            raise ValueError("seven")

    numbers = list(range(count))
    async with living(settings(), handlers):
        await put(
            connection,
            "list",
            {
                "name": "a",
                "handler": "py:breaks",
                "for_each": "$.args.list",
                "tolerate": 1,
                "max_attempts": 1,
            },
            {"name": "b", "handler": "py:fine", "after": "a"},
        )
        run = await connection.fetchval(
            "SELECT pgcron.start_workflow('list', $1)", json.dumps({"list": numbers})
        )
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    [row] = await connection.fetch(
        "SELECT items, items_ended, items_failed FROM pgcron.workflow_steps"
        " WHERE name = 'a' AND item = -1"
    )
    assert tuple(row) == (count, count, 1)
    assert await connection.fetch("SELECT * FROM pgcron.check_workflows()") == []


async def test_no_number_of_workflows_that_have_always_to_do_keeps_another_one_waiting(
    settings: Start, handlers: Handlers, connection: Connection, another: Connect
) -> None:
    """They have ends that can't be counted, as somebody has locked their steps."""
    await put(connection, "waits", {"name": "go", "wait_for": "signal"})
    async with living(settings(), handlers):
        runs = [
            await connection.fetchval("SELECT pgcron.start_workflow('waits')")
            for _ in range(WORKFLOWS + 1)
        ]

        async def all_wait() -> bool:
            query = "SELECT count(*) FROM pgcron.workflow_steps WHERE state = 'running'"
            return bool(await connection.fetchval(query) == len(runs))

        await until("all steps wait", all_wait)
        other = await another()
        async with other.transaction():
            await other.execute(
                "SELECT FROM pgcron.step WHERE workflow <> $1 FOR UPDATE", last := runs[-1]
            )
            await connection.execute("SELECT pgcron.signal(unnest($1::bigint[]), 'go')", runs[:-1])

            async def have_ends() -> bool:
                query = "SELECT count(DISTINCT run) FROM pgcron.step_outbox"
                return bool(await connection.fetchval(query) == WORKFLOWS)

            await until("the others have always to do", have_ends)
            await connection.execute("SELECT pgcron.signal($1, 'go')", last)
            await until("the last one is over", is_in(connection, last, "succeeded"))


async def test_a_step_knows_the_fire_time_of_its_workflow(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    seen = []

    @handlers.app.handler("day_of")
    async def day_of(context: Context) -> None:
        seen.append(context.fire_time)

    await put(connection, "inner", {"name": "a", "handler": "py:day_of"})
    await put(connection, "outer", {"name": "a", "handler": "workflow:inner"})
    await connection.execute("SELECT pgcron.put_schedule('s', '@daily', 'workflow:outer')")
    day = datetime(2026, 3, 1, tzinfo=UTC)
    async with living(settings(), handlers):
        run = await connection.fetchval("SELECT pgcron.run_now('s', fire_time => $1)", day)
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    assert seen == [day]


async def nested_runs(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT state FROM pgcron.runs WHERE handler = 'workflow:ad_hoc' ORDER BY id"
    )
    return [row["state"] for row in rows]


async def test_steps_that_a_run_adds_are_begun_once_and_their_step_waits_for_them(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    seen = []

    @handlers.app.handler("lists", max_attempts=2)
    async def lists(context: Context) -> str:
        context.add_step("first_of_two", "py:fine", {"number": 1})
        if context.attempt == 1:
            context.add_step("of_a_failure", "py:fine")
            raise ValueError("not yet")
        read = {"number": "$.first_of_two.doubled"}
        context.add_step("b", "py:fine", after="first_of_two", args_from=read)
        return "kept in history"

    @handlers.app.handler("sees")
    async def sees(context: Context) -> None:
        seen.append(dict(context.results))

    await put(
        connection,
        "adding",
        {"name": "list", "handler": "py:lists", "max_attempts": 2, "retry": {"base": "10 ms"}},
        {"name": "after", "handler": "py:sees", "after": "list"},
    )
    async with living(settings(), handlers):
        run = await connection.fetchval("SELECT pgcron.start_workflow('adding')")
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    assert seen == [{"list": {"doubled": 4}}]
    rows = await connection.fetch("SELECT name, state FROM pgcron.workflow_steps ORDER BY name")
    assert {(row["name"], row["state"]) for row in rows} == {
        (name, "succeeded") for name in ("list", "after", "first_of_two", "b")
    }
    assert await nested_runs(connection) == ["succeeded"]
    result = await connection.fetchval(
        "SELECT result FROM pgcron.history WHERE handler = 'py:lists'"
    )
    assert result == '"kept in history"'
    assert await connection.fetch("SELECT * FROM pgcron.check_workflows()") == []


async def test_added_steps_that_fail_fail_their_step_and_a_clear_adds_them_again(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    fails = [True]

    @handlers.app.handler("adds")
    async def adds(context: Context) -> None:
        context.add_step("a", "py:breaks", max_attempts=1)

    @handlers.app.handler("breaks")
    async def breaks() -> int:
        if fails[0]:
            raise ValueError("broken")
        return 7

    await put(
        connection,
        "adding",
        {"name": "first", "handler": "py:adds"},
        {"name": "after", "handler": "py:fine", "after": "first"},
        {"name": "wait", "wait_for": "signal"},
    )
    async with living(settings(), handlers):
        run = await connection.fetchval("SELECT pgcron.start_workflow('adding')")

        async def has(name: str, state: str) -> bool:
            query = "SELECT state FROM pgcron.workflow_steps WHERE run_id = $1 AND name = $2"
            return bool(await connection.fetchval(query, run, name) == state)

        await until("the step has failed", lambda: has("after", "upstream_failed"))
        assert await nested_runs(connection) == ["dead"]
        fails[0] = False
        await connection.execute("SELECT pgcron.clear_step($1, 'first')", run)
        await until("what comes after has run", lambda: has("after", "succeeded"))
        await connection.execute("SELECT pgcron.signal($1, 'wait')", run)
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    assert await nested_runs(connection) == ["dead", "succeeded"]
    assert await connection.fetch("SELECT * FROM pgcron.check_workflows()") == []


@pytest.mark.parametrize(
    ("keys", "reason"),
    [({"after": "nobody"}, "nobody"), ({"rule": "some"}, "some"), ({"color": "red"}, "color")],
)
async def test_a_step_that_can_not_be_added_fails_the_run_with_a_sentence(
    settings: Start, handlers: Handlers, connection: Connection, keys: dict[str, Any], reason: str
) -> None:
    @handlers.app.handler("adds", max_attempts=1)
    async def adds(context: Context) -> None:
        context.add_step("a", "py:fine", **keys)

    await put(connection, "adding", {"name": "first", "handler": "py:adds", "max_attempts": 1})
    async with living(settings(), handlers):
        run = await connection.fetchval("SELECT pgcron.start_workflow('adding')")
        await until("the workflow is over", is_in(connection, run, "dead"))

    [step] = await connection.fetch("SELECT state, reason FROM pgcron.workflow_steps")
    assert step["state"] == "dead"
    assert reason in step["reason"]
    assert await nested_runs(connection) == []


async def test_only_steps_add_steps_and_what_is_no_json_is_refused_at_once(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    refusals = []

    @handlers.app.handler("adds")
    async def adds(context: Context, number: int = 0) -> None:
        for keys in ({}, {"args": {"day": datetime.now(UTC)}}):
            try:
                context.add_step("a", "py:fine", **keys)
            except InvalidInput as error:
                refusals.append(error.message)
        context._declared = None

    await put(connection, "adding", {"name": "first", "handler": "py:adds"})
    async with living(settings(), handlers):
        run = await connection.fetchval("SELECT pgcron.enqueue('py:adds')")
        await until("the run is over", is_in(connection, run, "succeeded"))
        first, second = refusals
        run = await connection.fetchval("SELECT pgcron.start_workflow('adding')")
        await until("the workflow is over", is_in(connection, run, "succeeded"))

    assert first == second
    assert first.endswith("can't add step 'a'")
    assert [one.partition(":")[0] for one in refusals[2:]] == ["step 'a' can't be kept"]


async def test_a_workflow_takes_no_slot_of_the_node_that_began_it(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    """A node with one executes the steps of workflows within workflows, while others wait."""
    await put(connection, "waits", {"name": "go", "wait_for": "signal"})
    await put(connection, "inner", {"name": "a", "handler": "py:fine"})
    await put(connection, "outer", {"name": "in", "handler": "workflow:inner"})
    async with living(settings(slots=1), handlers):
        waiting = await connection.fetchval("SELECT pgcron.start_workflow('waits')")
        await until("it waits", is_in(connection, waiting, "blocked"))
        run = await connection.fetchval("SELECT pgcron.start_workflow('outer')")
        await until("the outer one is over", is_in(connection, run, "succeeded"))
        assert await connection.fetchval("SELECT count(owner) FROM pgcron.run") == 0
