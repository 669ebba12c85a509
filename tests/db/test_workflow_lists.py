"""Lists whose items are workflows, with lists of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.db.control import Connection
from tests.db.workflows import Stage, stage, step

LISTS = {"lists": [[1, 2], [3], [], [4]]}


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    await made.put("v", step("a", for_each="$.args.item"))
    yield made
    await made.check()


def each(**keys: Any) -> dict[str, Any]:
    return {"name": "each", "handler": "workflow:v", "for_each": "$.args.lists", **keys}


async def end_items(flow: Stage, failing: int | None = None) -> None:
    """Those that execute, the last first: the result of each is ten times its number."""
    rows = await flow.connection.fetch(
        "SELECT * FROM pgcron.run WHERE handler = 'py:a' AND state = 'running' ORDER BY id DESC"
    )
    for row in rows:
        number = json.loads(row["args"])["item"]
        result = ValueError() if number == failing else 10 * number
        await flow.end([row], {row["id"]: "a"}, {"a": result})
    await flow.advance()


@pytest.mark.parametrize("most", [None, 1])
async def test_a_list_of_workflows_is_joined_with_the_results_of_all_in_order(
    flow: Stage, connection: Connection, most: int | None
) -> None:
    keys = {} if most is None else {"max_parallel": most}
    run = await flow.run(each(**keys), step("c", "each"), args=LISTS)
    opened = "SELECT count(*) FROM pgcron.workflow_run WHERE above = $1 AND ended_at IS NULL"
    together = []
    for _ in range(20):
        await flow.turn({"c": None})
        together.append(await connection.fetchval(opened, run))
        await end_items(flow)

    assert await flow.state(run) == "succeeded"
    assert json.loads(flow.results["c"]) == {"each": [[10, 20], [30], [], [40]]}
    assert flow.began == ["a", "a", "a", "a", "c"]
    # the empty one is over as it begins
    assert max(together) == (3 if most is None else 1)
    query = "SELECT run, outcome FROM pgcron.workflow_run WHERE above = $1 ORDER BY run"
    within = await connection.fetch(query, run)
    items = await connection.fetch(
        "SELECT step_run, state, result FROM pgcron.workflow_steps"
        " WHERE run_id = $1 AND name = 'each' AND item >= 0 ORDER BY item",
        run,
    )
    assert [row["run"] for row in within] == [row["step_run"] for row in items]
    assert {row["outcome"] for row in within} == {"succeeded"}
    assert [json.loads(row["result"]) for row in items] == [[10, 20], [30], [], [40]]


@pytest.mark.parametrize("tolerate", [0, 1])
async def test_a_workflow_that_fails_is_a_failed_item(
    flow: Stage, connection: Connection, tolerate: int
) -> None:
    run = await flow.run(each(tolerate=tolerate), step("c", "each"), args=LISTS)
    for _ in range(3):
        await flow.turn({})
    await end_items(flow, failing=3)
    await flow.work()

    letters = await connection.fetch("SELECT run_id FROM pgcron.dead_letters")
    items = await connection.fetchrow(
        "SELECT items, items_ended, items_failed FROM pgcron.workflow_steps"
        " WHERE run_id = $1 AND name = 'each' AND item < 0",
        run,
    )
    assert items is not None
    if tolerate == 1:
        assert await flow.states(run) == {"each": "succeeded", "c": "succeeded"}
        assert json.loads(flow.results["c"]) == {"each": [[10, 20], None, [], [40]]}
        assert tuple(items) == (4, 4, 1)
        assert letters == []
    else:
        assert await flow.states(run) == {"each": "dead", "c": "upstream_failed"}
        assert [row["run_id"] for row in letters] == [run]
