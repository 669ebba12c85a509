"""`depends_on_previous`: a fire runs after the one before it has succeeded, and not otherwise."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    claim_overlapping,
    cursor_of,
    database_now,
    fail,
    finish,
    join,
    materialize,
    put_schedule,
)
from tests.product.db import functions

RULE = "depends_on_previous"


async def fire(connection: Connection, schedule: int, number: int) -> datetime:
    """The fire of that number (from 1) of the last hour, made and due now."""
    cursor = await cursor_of(connection, schedule)
    if number == 1:
        await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
        cursor = await cursor_of(connection, schedule)
    at = (await database_now(connection)).replace(minute=0, second=0, microsecond=0)
    instant: datetime = max(at - timedelta(hours=1), cursor["watermark"]) + timedelta(minutes=1)
    assert await materialize(connection, cursor, [instant]) == (1, 1)
    return instant


async def decide(connection: Connection) -> int:
    decided: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.admit_previous(ARRAY("
        "SELECT DISTINCT schedule_id FROM pgcron.run WHERE gate = 'previous'))"
    )
    return decided


async def reported(connection: Connection, instant: datetime) -> tuple[str, str, str | None]:
    row = await connection.fetchrow(
        "SELECT decision, code, reason FROM pgcron.why('job', $1)", instant
    )
    assert row is not None
    return row["decision"], row["code"], row["reason"]


async def claimed(connection: Connection, node: Node) -> list[Row]:
    return (await claim_overlapping(connection, node))[0]


@pytest.fixture
async def node(connection: Connection) -> Node:
    return await join(connection)


async def test_a_fire_waits_apart_until_the_one_before_it_succeeded(
    connection: Connection, node: Node
) -> None:
    schedule = await put_schedule(connection, overlap="queue", depends_on_previous=True)
    await fire(connection, schedule, 1)
    assert await claimed(connection, node) == []  # not before it was judged
    assert await decide(connection) == 1
    first = await claimed(connection, node)
    second = await fire(connection, schedule, 2)

    assert await decide(connection) == 0  # that one is executed
    assert await claimed(connection, node) == []
    await finish(connection, first)
    assert await decide(connection) == 1
    [run] = await claimed(connection, node)
    assert run["fire_time"] == second


async def test_what_is_skipped_while_the_last_runs_is_looked_through(
    connection: Connection, node: Node
) -> None:
    schedule = await put_schedule(connection, depends_on_previous=True)
    await fire(connection, schedule, 1)
    await decide(connection)
    first = await claimed(connection, node)
    second = await fire(connection, schedule, 2)
    assert await decide(connection) == 1
    assert (await reported(connection, second))[:2] == ("skipped", "overlap_skipped")

    await finish(connection, first)
    third = await fire(connection, schedule, 3)
    assert await decide(connection) == 1
    [run] = await claimed(connection, node)
    assert run["fire_time"] == third


@pytest.mark.parametrize("helped", ["retry", "run now"])
async def test_a_failure_holds_up_the_next_until_something_succeeded(
    connection: Connection, node: Node, helped: str
) -> None:
    schedule = await put_schedule(connection, max_attempts=1, depends_on_previous=True)
    await fire(connection, schedule, 1)
    await decide(connection)
    [first] = await claimed(connection, node)
    await fail(connection, [first])
    reported_of_first = f"run {first['id']} of the fire before ended dead"

    for number in (2, 3):  # the third fails with the first, by way of the second
        instant = await fire(connection, schedule, number)
        assert await decide(connection) == 1
        assert await reported(connection, instant) == (
            "upstream_failed",
            "previous_failed",
            reported_of_first,
        )
    ends = await connection.fetch(
        "SELECT outcome, error FROM pgcron.history WHERE id <> $1", first["id"]
    )
    assert [tuple(end) for end in ends] == [("upstream_failed", reported_of_first)] * 2
    assert await connection.fetch("SELECT * FROM pgcron.check_ledger()") == []

    if helped == "retry":
        await functions.retry_run(connection, first["id"])
    else:
        await functions.run_now(connection, "job")
    await finish(connection, await claimed(connection, node))
    last = await fire(connection, schedule, 4)
    assert await decide(connection) == 1
    [run] = await claimed(connection, node)
    assert run["fire_time"] == last


async def test_a_failure_that_found_no_partition_is_one_all_the_same(
    connection: Connection, node: Node
) -> None:
    schedule = await put_schedule(connection, max_attempts=1, depends_on_previous=True)
    await fire(connection, schedule, 1)
    await decide(connection)
    await fail(connection, await claimed(connection, node))
    await connection.execute(
        "WITH ended AS (DELETE FROM pgcron.history RETURNING *)"
        " INSERT INTO pgcron.history_overflow SELECT * FROM ended"
    )

    second = await fire(connection, schedule, 2)

    assert await decide(connection) == 1
    assert (await reported(connection, second))[0] == "upstream_failed"
    before = "SELECT outcome FROM pgcron.previous_run($1, $2)"
    assert await connection.fetchval(before, schedule, second) == "dead"


async def test_what_fails_is_judged_when_it_is_due(connection: Connection, node: Node) -> None:
    schedule = await put_schedule(connection, max_attempts=1, depends_on_previous=True)
    await fire(connection, schedule, 1)
    await decide(connection)
    await fail(connection, await claimed(connection, node))
    await fire(connection, schedule, 2)
    await connection.execute("UPDATE pgcron.run SET due_at = now() + interval '3 seconds'")

    assert await decide(connection) == 0  # it may still be repaired
    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    assert await decide(connection) == 1


async def test_the_previous_result_is_told(connection: Connection, node: Node) -> None:
    schedule = await put_schedule(connection)
    first = await fire(connection, schedule, 1)
    [run] = await claimed(connection, node)
    nothing = await connection.fetchrow(
        "SELECT * FROM pgcron.previous_run($1, $2)", schedule, first
    )
    await finish(connection, [run])
    second = await fire(connection, schedule, 2)
    found = await connection.fetchrow("SELECT * FROM pgcron.previous_run($1, $2)", schedule, second)

    assert nothing is None or nothing["run"] is None
    assert found is not None
    assert (found["run"], found["fire_time"], found["outcome"]) == (run["id"], first, "succeeded")


async def test_two_nodes_decide_each_fire_once(another: Connect) -> None:
    nodes = [await another() for _ in range(3)]
    for number in range(20):
        schedule = await put_schedule(nodes[0], name=f"job-{number}", depends_on_previous=True)
        await nodes[0].execute(
            "UPDATE pgcron.cursor SET watermark = now() - interval '1 hour' WHERE schedule_id = $1",
            schedule,
        )
        cursor = await cursor_of(nodes[0], schedule)
        await materialize(nodes[0], cursor, [await database_now(nodes[0])])
    decided = await asyncio.gather(*(decide(node) for node in nodes))

    assert sum(decided) == 20
    assert await nodes[0].fetchval("SELECT count(*) FROM pgcron.run WHERE gate = 'overlap'") == 20


@pytest.mark.parametrize(
    "policies",
    ["overlap => 'allow'", "overlap => 'replace'", "overlap => 'queue', max_running => 2"],
)
async def test_it_needs_one_run_at_a_time(connection: Connection, policies: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match=RULE) as refused:
        await connection.execute(
            f"SELECT pgcron.put_schedule('a', '@daily', 'py:a', {RULE} => true, {policies})"
        )
    assert refused.value.sqlstate == "PC001"
