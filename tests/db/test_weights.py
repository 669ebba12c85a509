"""Weights: a run that takes several slots of its node."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    HANDLER,
    Connection,
    Node,
    Row,
    call,
    claim,
    claim_limited,
    claim_overlapping,
    enqueue,
    fail,
    finish,
    join,
    kill,
    minutes,
    put_schedule,
    run_row,
)
from tests.product.client import request_run


async def waits_as(connection: Connection, run: int) -> tuple[Any, ...]:
    row = await run_row(connection, run)
    assert row is not None
    return row["weight"], row["concurrency_key"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, (None, None)),
        ({"weight": 1}, (None, None)),
        ({"weight": 4}, (4, "*weight 4")),
        ({"weight": 4, "concurrency_key": "customer-7"}, (4, "customer-7")),
        ({"concurrency_key": "customer-7"}, (None, "customer-7")),
    ],
)
async def test_every_door_puts_a_heavy_run_where_it_waits(
    connection: Connection, given: dict[str, Any], stored: tuple[Any, ...]
) -> None:
    one = await connection.fetchval(
        "SELECT pgcron.enqueue($1, weight => $2, concurrency_key => $3)",
        HANDLER,
        given.get("weight"),
        given.get("concurrency_key"),
    )
    [many] = await connection.fetchval(
        "SELECT pgcron.enqueue_many($1::text::jsonb)", json.dumps([{"handler": HANDLER, **given}])
    )
    request = request_run(HANDLER, None, given)
    sent = await request.send(connection, "pgcron")
    [as_json] = await connection.fetchval(
        "SELECT pgcron.enqueue_many($1::text::jsonb)", f"[{request.as_json()}]"
    )
    schedule = await put_schedule(connection, overlap="allow", **given)
    now = await connection.fetchval("SELECT pgcron.run_now('job')")

    for run in (one, many, sent, as_json, now):
        assert await waits_as(connection, run) == stored
    [shown] = await connection.fetch(
        "SELECT weight, concurrency_key FROM pgcron.runs WHERE id = $1", one
    )
    assert tuple(shown) == (stored[0] or 1, stored[1])
    assert await connection.fetchval(
        "SELECT weight FROM pgcron.schedules WHERE id = $1", schedule
    ) == (stored[0] or 1)


@pytest.mark.parametrize("again", ["retry", "redrive"])
async def test_a_run_keeps_its_weight_when_it_runs_again(
    connection: Connection, again: str
) -> None:
    node = await join(connection)
    await enqueue(connection, weight=3, concurrency_key="customer-7", max_attempts=1)
    [first] = await claim_limited(connection, node)
    if again == "retry":
        await finish(connection, [first])
        run = await connection.fetchval("SELECT pgcron.retry_run($1)", first["id"])
    else:
        await fail(connection, [first])
        run = await connection.fetchval("SELECT pgcron.redrive($1)", first["id"])

    assert await waits_as(connection, run) == (3, "customer-7")


@pytest.mark.parametrize("weight", [0, -1, 1001])
async def test_a_weight_that_is_none_is_refused(connection: Connection, weight: int) -> None:
    for ask in (
        lambda: enqueue(connection, weight=weight, concurrency_key="a"),
        lambda: connection.fetchval("SELECT pgcron.enqueue($1, weight => $2)", HANDLER, weight),
        lambda: put_schedule(connection, weight=weight),
    ):
        refusal = rf"^weight {weight} is out of range\n"
        with pytest.raises(asyncpg.PostgresError, match=refusal) as error:
            await ask()
        assert error.value.sqlstate == "PC001"
        assert (
            error.value.detail == "A run takes 1 to 1000 of the slots of the node that executes it."
        )


async def test_a_heavy_run_that_is_written_without_a_key_is_refused(connection: Connection) -> None:
    with pytest.raises(
        asyncpg.PostgresError, match=r"^weight 4 without a concurrency key\n"
    ) as refused:
        await enqueue(connection, weight=4)
    assert refused.value.hint == "Call pgcron.enqueue, or write the concurrency key '*weight 4'."
    [run] = await enqueue(connection, weight=4, concurrency_key="*weight 4")
    assert await waits_as(connection, run) == (4, "*weight 4")

    for concurrency_key in ("*weight 4", "*weight 1", "*"):
        with pytest.raises(asyncpg.PostgresError, match="is not a concurrency key"):
            await enqueue(connection, weight=1, concurrency_key=concurrency_key)


async def test_the_key_of_a_weight_has_no_limit_whatever_is_set_for_others(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('*', 1)")
    runs = await enqueue(connection, 3, weight=2, concurrency_key="*weight 2")

    assert await claim(connection, node) == []
    assert await claim_overlapping(connection, node) == ([], [])
    claimed = await claim_limited(connection, node, 20)

    assert [row["id"] for row in claimed] == runs


def ago(count: float) -> datetime:
    return datetime.now(UTC) - minutes(count)


async def heavy(connection: Connection, weight: int, count: int = 1, **columns: Any) -> list[int]:
    """Due for a minute, so that a node may keep slots free for them."""
    given = {"concurrency_key": f"*weight {weight}", "due_at": ago(1), **columns}
    return await enqueue(connection, count, weight=weight, **given)


def reported(rows: list[Row], verdict: str) -> list[int]:
    return [row["id"] for row in rows if row["verdict"] == verdict]


async def awaits(connection: Connection, node: Node) -> int | None:
    run: int | None = await connection.fetchval(
        "SELECT awaits FROM pgcron.node WHERE incarnation = $1", node.incarnation
    )
    return run


@pytest.mark.parametrize(("free", "count"), [(16, 4), (15, 3), (4, 1), (3, 0)])
async def test_no_more_weight_is_claimed_than_slots_are_free(
    connection: Connection, free: int, count: int
) -> None:
    node = await join(connection)
    runs = await heavy(connection, 4, 6)

    claimed = reported(await claim_limited(connection, node, free), "claim")

    assert claimed == runs[:count]


async def test_light_runs_take_what_a_heavy_one_leaves(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('light', NULL)")
    [first] = await heavy(connection, 3)
    light = await enqueue(connection, 5, concurrency_key="light")

    rows = await claim_limited(connection, node, 5)
    assert sorted(reported(rows, "claim")) == [first, *light[:2]]
    assert sorted(row["weight"] for row in rows) == [1, 1, 3]
    assert reported(await claim_limited(connection, node, 2), "claim") == light[2:4]


async def test_a_heavy_run_is_claimed_for_free_slots_only(connection: Connection) -> None:
    node = await join(connection)
    runs = await heavy(connection, 2, 3)

    assert reported(await claim_limited(connection, node, 3), "claim") == runs[:1]
    assert reported(await claim_limited(connection, node, 0), "claim") == []


async def test_one_node_keeps_slots_free_for_a_heavy_run_and_whoever_has_room_takes_it(
    connection: Connection,
) -> None:
    small, first, second = [await join(connection, slots=slots) for slots in (3, 8, 8)]
    await connection.execute("SELECT pgcron.set_concurrency('light', NULL)")
    [run] = await heavy(connection, 4)
    await enqueue(connection, 9, concurrency_key="light")

    for node, is_awaited in ((small, False), (first, True), (second, False)):
        rows = await claim_limited(connection, node, 1)
        assert reported(rows, "await") == [run] * is_awaited
        assert len(reported(rows, "claim")) == 1, "the slot that is free is nobody's loss yet"
    rows = await claim_limited(connection, first, 3)
    assert [(row["verdict"], row["id"], row["weight"]) for row in rows] == [("await", run, 4)]

    assert reported(await claim_limited(connection, second, 4), "claim")[0] == run

    assert len(reported(await claim_limited(connection, first, 3), "claim")) == 3
    assert await awaits(connection, first) is None


async def test_what_is_awaited_goes_before_all_others(connection: Connection) -> None:
    node = await join(connection, slots=8)
    await connection.execute("SELECT pgcron.set_concurrency('light', NULL)")
    [run] = await heavy(connection, 4, priority=9)
    light = await enqueue(connection, 9, concurrency_key="light", priority=0, due_at=ago(2))

    assert reported(await claim_limited(connection, node, 2), "await") == [run]
    assert reported(await claim_limited(connection, node, 4), "claim") == [run]
    assert reported(await claim_limited(connection, node, 4), "claim") == light[2:6]


async def test_a_dead_node_awaits_nothing(connection: Connection) -> None:
    first, second = [await join(connection, slots=8) for _ in range(2)]
    [run] = await heavy(connection, 4)
    assert reported(await claim_limited(connection, first, 1), "await") == [run]

    await kill(connection, first)

    assert reported(await claim_limited(connection, second, 1), "await") == [run]


async def test_nobody_awaits_a_run_that_has_just_come_due(connection: Connection) -> None:
    node = await join(connection, slots=8)
    await heavy(connection, 4, due_at=ago(0))

    assert await claim_limited(connection, node, 1) == []
    assert await awaits(connection, node) is None


async def test_a_run_too_heavy_for_every_node_stands_in_nobodys_way(connection: Connection) -> None:
    node = await join(connection, slots=8)
    await connection.execute("SELECT pgcron.set_queue('default', 2)")
    await heavy(connection, 9, 5, priority=0)
    runs = await heavy(connection, 4, 2)
    plain = await enqueue(connection, 2)

    rows = await claim_limited(connection, node, 8)
    assert sorted(reported(rows, "claim")) == [runs[0], plain[0]]
    assert reported(rows, "await") == []
    await finish(connection, [row for row in rows if row["verdict"] == "claim"])
    rows = await claim_limited(connection, node, 8)
    assert sorted(reported(rows, "claim")) == [runs[1], plain[1]]


async def test_a_run_that_was_called_too_light_is_given_back_and_waits_with_the_heavy_ones(
    connection: Connection,
) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    await enqueue(connection)
    await enqueue(connection, concurrency_key="customer-7")
    await enqueue(connection, origin="manual", schedule_id=schedule, overlap="skip")
    rows = await claim(connection, node) + await claim_limited(connection, node)
    rows += (await claim_overlapping(connection, node))[0]

    given = await call(
        connection,
        "release_runs",
        run_ids=[row["id"] for row in rows],
        tokens=[row["token"] for row in rows],
        weights=[2 for _ in rows],
    )

    assert len(given) == 3
    assert [await waits_as(connection, row["id"]) for row in rows] == [
        (2, "*weight 2"),
        (2, "customer-7"),
        (2, "*weight 2"),
    ]
    again = await claim_limited(connection, node)
    assert {row["id"] for row in again} == {row["id"] for row in rows}
    assert {row["attempt"] for row in again} == {1}


async def blocked(connection: Connection) -> list[int]:
    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE gate = 'no_node' ORDER BY id")
    return [row["id"] for row in rows]


async def test_runs_at_the_head_of_a_key_whose_handler_nobody_offers_are_parked(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    lost = await enqueue(connection, 2, concurrency_key="a", handler="py:gone")
    served = await enqueue(connection, concurrency_key="a")
    to_come = await enqueue(connection, concurrency_key="a", handler="py:gone", due_at=ago(-5))
    behind = await enqueue(connection, concurrency_key="b")
    await enqueue(connection, concurrency_key="b", handler="py:gone", due_at=ago(-1))

    claimed = await claim_limited(connection, node)

    assert {row["id"] for row in claimed} == {*served, *behind}
    assert await blocked(connection) == lost

    await join(connection, handlers=("py:gone",), queues=("other",))
    assert await call(connection, "unblock", at_most=10) == []
    other = await join(connection, handlers=("py:gone",))
    await call(connection, "unblock", at_most=10)
    assert await blocked(connection) == []
    assert {row["id"] for row in await claim_limited(connection, other)} == {*lost}
    assert await run_row(connection, to_come[0]) is not None


async def test_a_run_that_another_node_can_execute_is_not_parked(connection: Connection) -> None:
    node = await join(connection)
    await join(connection, handlers=("py:theirs",))
    await enqueue(connection, concurrency_key="a", handler="py:theirs")

    assert await claim_limited(connection, node) == []
    assert await call(connection, "block_unserved", queues=["default"], look=1000) == []
    assert await blocked(connection) == []


async def test_a_round_parks_a_thousand_runs_at_most(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 2500, concurrency_key="a", handler="py:gone")
    [run] = await enqueue(connection, concurrency_key="a")

    for count in (1000, 2000):
        assert await claim_limited(connection, node) == []
        assert len(await blocked(connection)) == count
    assert [row["id"] for row in await claim_limited(connection, node)] == [run]
    assert len(await blocked(connection)) == 2500


async def test_what_nobody_offers_hides_no_run_of_its_key_behind_many_other_keys(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute(
        """INSERT INTO pgcron.run (handler, concurrency_key, due_at)
           SELECT 'py:work', 'a' || n, now() + interval '1 day' FROM generate_series(1, 450) n"""
    )
    await enqueue(connection, 1000, concurrency_key="b", handler="py:gone", due_at=ago(60))
    [run] = await enqueue(connection, concurrency_key="b")

    assert await claim_limited(connection, node) == []
    assert [row["id"] for row in await claim_limited(connection, node)] == [run]
