"""Workflows that nodes execute."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha import Context
from tests.db.control import Connection
from tests.engine.test_node import Handlers, Start, handlers, is_in, living, settings
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
