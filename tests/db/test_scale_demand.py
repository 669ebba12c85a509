"""How many slots the work of a queue wants."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.db.control import (
    Connection,
    admit,
    claim,
    claim_limited,
    claim_overlapping,
    enqueue,
    join,
    minutes,
    put_schedule,
)


async def demand(connection: Connection, *given: object) -> int:
    places = ", ".join(f"${place}" for place in range(1, len(given) + 1))
    answer: int = await connection.fetchval(f"SELECT pgcron.scale_demand({places})", *given)
    return answer


async def test_what_executes_and_what_is_due_is_wanted_by_weight(connection: Connection) -> None:
    assert await demand(connection) == await demand(connection, "default") == 0
    assert await demand(connection, "nobody-knows-it", None) == 0

    await enqueue(connection, 3)
    await enqueue(connection, 2, delivery="at_most_once", priority=9)
    await enqueue(connection, 4, due_at=datetime.now(UTC) + minutes(5))
    await enqueue(connection, 1, requires=["gpu"], priority=0)
    await enqueue(connection, 7, queue="etl")
    await enqueue(connection, 2, weight=4, concurrency_key="*weight 4", queue="etl")
    assert await demand(connection, "default") == 6
    assert await demand(connection, "etl") == 15
    assert await demand(connection) == 21

    node = await join(connection, queues=("default", "etl"))
    assert len(await claim(connection, node, limit=4)) == 4
    assert len(await claim_limited(connection, node, free=4)) == 1
    assert await demand(connection) == 21
    await connection.execute("UPDATE pgcron.cluster SET paused_at = now()")
    assert await demand(connection) == 4 + 4


async def test_what_another_node_could_not_begin_is_not_wanted(connection: Connection) -> None:
    await connection.execute(
        "SELECT pgcron.set_concurrency('three', 3), pgcron.set_concurrency('free', NULL), "
        "pgcron.set_concurrency('rated', NULL, rate => 4, per => '1 hour')"
    )
    for concurrency_key, runs, slots in (
        ("one", 5, 1),
        ("three", 5, 3),
        ("free", 5, 5),
        ("rated", 9, 4),
    ):
        before = await demand(connection)
        await enqueue(connection, runs - 1, concurrency_key=concurrency_key)
        await enqueue(connection, 1, concurrency_key=concurrency_key, priority=1)
        assert await demand(connection) - before == slots, concurrency_key
    assert await demand(connection) == 13

    await connection.execute("SELECT pgcron.set_queue('default', 6)")
    assert await demand(connection, "default") == 6
    await connection.execute("SELECT pgcron.set_queue('default', NULL, rate => 2, per => '1 h')")
    assert await demand(connection, "default") == 2
    await connection.execute("SELECT pgcron.pause_queue('default')")
    assert await demand(connection, "default") == await demand(connection) == 0


async def test_running_runs_fill_key_and_queue(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute(
        "SELECT pgcron.set_concurrency('three', 3), pgcron.set_queue('default', 4)"
    )
    await enqueue(connection, 9, concurrency_key="three")
    await enqueue(connection, 9, priority=9)
    assert await demand(connection) == 4
    assert len(await claim_limited(connection, node, free=2)) == 2
    assert await demand(connection) == 4
    assert len(await claim_limited(connection, node, free=9)) == 2
    assert await demand(connection) == 4
    await connection.execute("SELECT pgcron.pause_queue('default')")
    assert await demand(connection) == 4


async def test_a_schedule_that_may_not_overlap_wants_one_slot(connection: Connection) -> None:
    node = await join(connection)
    await put_schedule(connection, overlap="skip")
    for _ in range(3):
        await connection.fetchval("SELECT pgcron.run_now('job')")
    await admit(connection)
    assert await demand(connection) == 1
    claimed, _ = await claim_overlapping(connection, node)
    assert len(claimed) == 1
    await connection.fetchval("SELECT pgcron.run_now('job')")
    assert await demand(connection) == 1


async def test_what_nobody_offers_wants_one_slot_so_that_somebody_may(
    connection: Connection,
) -> None:
    await enqueue(connection, 5, handler="py:rare", queue="etl")
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'")
    assert await demand(connection) == await demand(connection, "etl") == 1
    assert await demand(connection, "default") == 0
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = 'breaker'")
    assert await demand(connection) == 0


@pytest.mark.parametrize("cap", [1, 10, 100])
async def test_no_more_is_counted_than_asked(connection: Connection, cap: int) -> None:
    for queue in ("a", "b"):
        await enqueue(connection, 60, queue=queue)
        await enqueue(connection, 60, queue=queue, requires=["gpu"])
        await enqueue(connection, 60, queue=queue, concurrency_key="*weight 2", weight=2)
    assert cap <= await demand(connection, None, cap) <= 2 * cap
    assert cap <= await demand(connection, "a", cap) <= 2 * cap
    assert await demand(connection, "a") == 240
    assert await demand(connection) == 480
