"""What a workflow holds until it is over, what it does not take, and how long it may last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.db.control import Connection, Row, admit, call, put_schedule
from tests.db.workflows import Stage, end, stage, step

LAST = step("last", **{"finally": True})
REFUSED = "its workflow holds the concurrency key k, so that it would wait for itself"


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def enqueue(connection: Connection, handler: str, given: str = "") -> int:
    run: int = await connection.fetchval(f"SELECT pgcron.enqueue('{handler}'{given})")
    return run


async def run_of(connection: Connection, handler: str) -> Row:
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE handler = $1", handler)
    return row


async def holders(connection: Connection) -> list[int]:
    """The runs that hold a slot of a key."""
    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE key_slot IS NOT NULL")
    return [row["id"] for row in rows]


@pytest.mark.parametrize("end", ["succeeded", "dead", "cancelled"])
async def test_a_workflow_keeps_the_slot_of_its_key_until_it_is_over(
    flow: Stage, connection: Connection, end: str
) -> None:
    await flow.put("w", step("a"), LAST)
    runs = [
        await enqueue(connection, handler, ", concurrency_key => 'k'")
        for handler in ("workflow:w", "workflow:w", "py:b")
    ]
    for _ in range(2):
        await flow.turn({})
    row = await run_of(connection, "py:a")
    assert (row["state"], row["concurrency_key"]) == ("running", None)  # its steps have no key
    assert await holders(connection) == runs[:1]

    if end == "cancelled":
        await connection.execute("SELECT pgcron.cancel_run($1)", runs[0])
        await flow.advance()
    outcome = None if end == "succeeded" else ValueError()
    await flow.end([row], {row["id"]: "a"}, {"a": outcome})
    await flow.advance()
    assert await holders(connection) == runs[:1]
    assert await flow.turn({"last": None}) == ["last"]
    assert [await flow.state(run) for run in runs] == [end, "ready", "ready"]
    assert await holders(connection) == []

    await flow.turn({})
    assert [await flow.state(run) for run in runs[1:]] == ["blocked", "ready"]
    await flow.work()
    assert [await flow.state(run) for run in runs] == [end, "succeeded", "succeeded"]


WITHIN = {"name": "in", "handler": "workflow:v"}
KEYED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a step": (step("a", concurrency_key="k"), step("c")),
    "an item": (step("a", concurrency_key="k", for_each="$.args.list"), step("c")),
    "a workflow within": ({**WITHIN, "concurrency_key": "k"}, step("c")),
    "a step of one": (WITHIN, step("c", concurrency_key="k")),
}


@pytest.mark.parametrize("what", KEYED)
async def test_what_has_the_key_of_a_workflow_above_it_is_refused(
    flow: Stage, connection: Connection, what: str
) -> None:
    """It would wait for the end of what waits for its own."""
    keyed, within = KEYED[what]
    await flow.put("v", within)
    await flow.put("w", keyed, step("b"))
    run = await enqueue(connection, "workflow:w", ", '{\"list\": [1]}', concurrency_key => 'k'")
    await flow.work()

    assert flow.began == ["b"]
    assert await flow.states(run) == {keyed["name"]: "dead", "b": "succeeded"}
    refused = await connection.fetch("SELECT state, reason FROM pgcron.workflow_steps")
    assert ("dead", REFUSED) in [tuple(row) for row in refused]
    assert await flow.state(run) == "dead"
    error = await connection.fetchval("SELECT error FROM pgcron.runs WHERE id = $1", run)
    assert error.startswith(f"step {keyed['name']} dead: ")
    assert (REFUSED in error) == (what != "an item")


async def test_steps_have_other_keys_than_the_workflows_above_them(
    flow: Stage, connection: Connection
) -> None:
    await flow.put("v", step("a", concurrency_key="c"))
    await flow.put("w", {"name": "in", "handler": "workflow:v", "concurrency_key": "b"})
    run = await enqueue(connection, "workflow:w", ", concurrency_key => 'k'")
    other = await enqueue(connection, "py:b", ", concurrency_key => 'b'")
    for _ in range(3):
        await flow.turn({})
    within = await run_of(connection, "workflow:v")
    assert (await flow.state(other), within["state"]) == ("running", "ready")
    await end(flow, "b")
    for _ in range(2):
        await flow.turn({})
    assert len(await holders(connection)) == 3
    await end(flow, "a")
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_workflow_takes_no_place_in_the_limit_of_its_queue(
    flow: Stage, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_queue('default', 1)")
    await flow.put("w", step("a"), step("b", "a"))
    runs = [await enqueue(connection, "workflow:w") for _ in range(3)]
    executing = "SELECT handler FROM pgcron.run WHERE state = 'running' OR owner IS NOT NULL"
    for _ in range(5):
        await flow.turn({})
        assert len(await connection.fetch(executing)) <= 1

    assert [await flow.state(run) for run in runs] == ["blocked"] * 3
    assert flow.began == ["a"]
    [row] = await connection.fetch("SELECT * FROM pgcron.run WHERE state = 'running'")
    await flow.end([row], {row["id"]: "a"}, {"a": None})
    await flow.work()
    assert [await flow.state(run) for run in runs] == ["succeeded"] * 3


async def begin(flow: Stage, connection: Connection, way: str) -> int:
    """The workflow v, which may take an hour in all."""
    if way == "enqueue":
        return await enqueue(connection, "workflow:v", ", give_up_after => '1 hour'")
    if way == "schedule":
        hour = timedelta(hours=1)
        await put_schedule(connection, spec="@daily", handler="workflow:v", give_up_after=hour)
        run: int = await connection.fetchval("SELECT pgcron.run_now('job')")
        await admit(connection)
        return run
    await flow.run({"name": "in", "handler": "workflow:v", "give_up_after": "1 hour"})
    return int((await run_of(connection, "workflow:v"))["id"])


@pytest.mark.parametrize("way", ["enqueue", "schedule", "step"])
async def test_a_workflow_that_is_not_over_in_all_its_time_is_given_up(
    flow: Stage, connection: Connection, way: str
) -> None:
    """As at its timeout: nothing more begins, what executes is stopped, and then what is final."""
    await flow.put("v", step("a"), step("b", "a"), LAST, timeout="2 hours")
    run = await begin(flow, connection, way)
    for _ in range(2):
        await flow.turn({})
    row = await run_of(connection, "py:a")
    assert row["state"] == "running"
    length = await connection.fetchval(
        "SELECT w.deadline - r.due_at FROM pgcron.workflow_run w JOIN pgcron.run r ON r.id = w.run"
        " WHERE w.run = $1",
        run,
    )
    assert length == timedelta(hours=1)

    await connection.execute(
        "UPDATE pgcron.workflow_run SET deadline = deadline - interval '1 hour'"
    )
    assert await call(connection, "give_up_runs", at_most=10) == []
    await flow.advance()
    assert (await run_of(connection, "py:a"))["cancel_at"] is not None
    assert await flow.turn({}) == []
    assert await flow.state(run) == "blocked"
    await flow.end([row], {row["id"]: "a"}, {"a": ValueError()})
    await flow.work()

    assert flow.began == ["a", "last"]
    assert await flow.state(run) == "dead"
    assert (await flow.states(run))["last"] == "succeeded"
    error = await connection.fetchval("SELECT error FROM pgcron.runs WHERE id = $1", run)
    assert "is over" in error


@pytest.mark.parametrize("hours", [(1, 2, 3), (2, 1, 3), (3, 2, 1)])
async def test_the_shortest_of_its_times_is_that_of_a_workflow(
    flow: Stage, connection: Connection, hours: tuple[int, int, int]
) -> None:
    of_definition, of_run, in_all = hours
    await flow.put("w", step("a"), timeout=f"{of_definition} hours")
    given = f", timeout => '{of_run} hours', give_up_after => '{in_all} hours'"
    await enqueue(connection, "workflow:w", given)
    await flow.turn({})

    taken = "SELECT extract(epoch FROM deadline - started_at)::float8 FROM pgcron.workflow_run"
    assert await connection.fetchval(taken) == pytest.approx(3600, abs=120)


@pytest.mark.parametrize("is_within", [False, True])
async def test_a_weight_is_no_key_that_a_workflow_holds(
    flow: Stage, connection: Connection, is_within: bool
) -> None:
    await flow.put("v", step("a", weight=2))
    if is_within:
        run = await flow.run({"name": "within", "handler": "workflow:v", "weight": 2})
    else:
        run = await enqueue(connection, "workflow:v", ", weight => 2")
    await flow.work()

    assert await flow.state(run) == "succeeded"
