from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.db.control import (
    HANDLER,
    NO_BOUND,
    NO_BOUNDS,
    Connect,
    Connection,
    call,
    claim,
    enqueue,
    join,
    minutes,
    put_schedule,
    run_row,
)
from tests.db.gate import Gate

STATEMENTS = pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])


@STATEMENTS
async def test_a_claimed_run_has_owner_token_fence_and_attempt(
    connection: Connection, delivery: str
) -> None:
    node = await join(connection)
    [run_id] = await enqueue(connection, delivery=delivery, args='{"n": 1}', timeout=minutes(2))

    [run] = await claim(connection, node)

    row = await run_row(connection, run_id)
    assert row is not None
    assert (row["state"], row["owner"], row["attempt"]) == ("running", node.incarnation, 1)
    assert (run["token"], run["fence"]) == (row["token"], row["fence"])
    assert (run["args"], run["timeout"], run["handler"]) == ('{"n": 1}', 120.0, HANDLER)
    assert run["max_attempts"] == (1 if delivery == "at_most_once" else 5)
    assert run["due"] == row["due_at"].timestamp()
    assert row["started_at"] is None


@STATEMENTS
async def test_a_claim_never_exceeds_its_limit(connection: Connection, delivery: str) -> None:
    node = await join(connection, queues=["a", "b", "c"])
    for queue in node.queues:
        for priority in (0, 5, 9):
            await enqueue(connection, 50, queue=queue, priority=priority, delivery=delivery)
    for settings in ("SET enable_nestloop = off", "RESET ALL", "SET enable_indexscan = off"):
        await connection.execute(settings)
        assert len(await claim(connection, node, 7)) == 7
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'running'") == (
        21
    )


@STATEMENTS
async def test_eight_claimers_share_no_run(
    connection: Connection, another: Connect, delivery: str
) -> None:
    ids = await enqueue(connection, 600, delivery=delivery)
    claimed: list[int] = []

    async def work(own: Connection) -> None:
        node = await join(own)
        while runs := await claim(own, node, 7):
            assert len(runs) <= 7
            claimed.extend(run["id"] for run in runs)

    await asyncio.gather(*[work(await another()) for _ in range(8)])

    assert sorted(claimed) == sorted(ids)


@STATEMENTS
async def test_a_slow_claimer_leaves_what_was_claimed_meanwhile(
    gate: Gate, another: Connect, delivery: str
) -> None:
    connection = await another()
    ids = await enqueue(connection, 3, delivery=delivery)
    slow_node, node = await join(connection), await join(connection)
    slow = await gate.visitor()
    async with gate.closed():
        claiming = asyncio.create_task(claim(slow, slow_node))
        await gate.reached_by(slow)
        [quick] = await claim(connection, node, 1)

    assert sorted([quick["id"], *(run["id"] for run in await claiming)]) == sorted(ids)


@STATEMENTS
@pytest.mark.parametrize(
    "obstacle",
    [
        "SELECT pgcron.pause_queue('default')",
        "SELECT pgcron.pause_cluster()",
        "UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 minute'",
        "UPDATE pgcron.node SET lease_until = now() - interval '1 second'",
        "UPDATE pgcron.node SET state = 'draining'",
        "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'x'",
        "UPDATE pgcron.run SET expire_at = now()",
        "UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'",
        "UPDATE pgcron.run SET due_at = now() + interval '1 second'",
    ],
)
async def test_nothing_is_claimed_against_an_obstacle(
    connection: Connection, obstacle: str, delivery: str
) -> None:
    node = await join(connection)
    await enqueue(connection, delivery=delivery)
    await connection.execute(obstacle)

    assert await claim(connection, node) == []


async def test_a_resumed_queue_is_claimed_again(connection: Connection) -> None:
    node = await join(connection, queues=["a", "b"])
    [paused] = await enqueue(connection, queue="a")
    [other] = await enqueue(connection, queue="b")
    await connection.execute("SELECT pgcron.pause_queue('a', 'deploy')")

    assert [run["id"] for run in await claim(connection, node)] == [other]
    await connection.execute("SELECT pgcron.resume_queue('a')")
    assert [run["id"] for run in await claim(connection, node)] == [paused]


async def test_a_paused_cluster_keeps_since_when_and_claims_again_when_resumed(
    connection: Connection,
) -> None:
    node = await join(connection)
    [run] = await enqueue(connection)
    await connection.execute("SELECT pgcron.pause_cluster('disks', 'ann')")
    first = await connection.fetchrow("SELECT paused_at, paused_note FROM pgcron.cluster")
    await connection.execute("SELECT pgcron.pause_cluster('still disks')")
    second = await connection.fetchrow("SELECT paused_at, paused_note FROM pgcron.cluster")

    assert first
    assert second
    assert (first["paused_at"], first["paused_note"]) == (second["paused_at"], "disks")
    assert second["paused_note"] == "still disks"
    assert await claim(connection, node) == []
    await connection.execute("SELECT pgcron.resume_cluster('ann')")
    assert [claimed["id"] for claimed in await claim(connection, node)] == [run]


async def test_only_offered_handlers_of_own_queues_are_claimed(connection: Connection) -> None:
    node = await join(connection, handlers=["py:mine"], queues=["mine"])
    await enqueue(connection, handler="py:mine", queue="other")
    await enqueue(connection, handler="py:other", queue="mine")
    [mine] = await enqueue(connection, handler="py:mine", queue="mine")

    assert [run["id"] for run in await claim(connection, node)] == [mine]


async def test_runs_that_may_start_only_once_are_claimed_where_they_are_asked_for(
    connection: Connection,
) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    await enqueue(connection, origin="manual", schedule_id=schedule, overlap="skip")
    [plain] = await enqueue(connection)
    [once] = await enqueue(connection, delivery="at_most_once")

    assert [run["id"] for run in await claim(connection, node, kinds=(False,))] == [plain]
    assert [run["id"] for run in await claim(connection, node)] == [once]


async def test_higher_priorities_go_first_and_their_future_runs_hold_nothing_up(
    connection: Connection,
) -> None:
    node = await join(connection)
    later = await connection.fetchval("SELECT now() + interval '1 hour'")
    await enqueue(connection, 30, priority=0, due_at=later)
    [low] = await enqueue(connection, priority=9)
    [high] = await enqueue(connection, priority=1)

    claimed = [(await claim(connection, node, 1))[0]["id"] for _ in range(2)]

    assert claimed == [high, low]
    assert await claim(connection, node) == []


async def test_within_a_priority_the_oldest_due_goes_first(connection: Connection) -> None:
    node = await join(connection)
    now = await connection.fetchval("SELECT now()")
    ids = [(await enqueue(connection, due_at=now - minutes(age)))[0] for age in (1, 3, 2)]

    claimed = [(await claim(connection, node, 1))[0]["id"] for _ in range(3)]

    assert claimed == [ids[1], ids[2], ids[0]]


async def test_a_bound_hides_what_lies_below_it_and_nothing_else(connection: Connection) -> None:
    node = await join(connection)
    first, bound, last = await enqueue(connection, 3)
    due = await connection.fetchval("SELECT due_at FROM pgcron.run LIMIT 1")
    path: dict[str, Any] = {
        "incarnation": node.incarnation,
        "queues": ["default"],
        "priorities": [5],
        "onces": [False],
        "handlers": [HANDLER],
        "plain": 10,
    }

    above = await call(connection, "claim", bound_dues=[due], bound_ids=[bound], **path)
    below = await call(connection, "claim", bound_dues=[NO_BOUND], bound_ids=[0], **path)

    assert sorted(run["id"] for run in above) == [bound, last]
    assert [run["id"] for run in below] == [first]


async def test_a_look_begins_at_the_bound_of_a_path(connection: Connection) -> None:
    first, _, last = await enqueue(connection, 3)
    [higher] = await enqueue(connection, priority=3)
    await connection.execute("UPDATE pgcron.run SET due_at = due_at - interval '1 s' * (9 - id)")
    rows = await connection.fetch("SELECT id, due_at FROM pgcron.run")
    due = {row["id"]: row["due_at"] for row in rows}

    async def seen(bound: int) -> dict[int, Any]:
        bounds = {"bound_queues": ["default"], "bound_priorities": [5], "bound_onces": [False]}
        bounds |= {"bound_dues": [due[bound]], "bound_ids": [bound]}
        due_index = await call(connection, "next_due", queues=["default"], **bounds)
        return {row["priority"]: row["due_at"] for row in due_index}

    assert await seen(first) == {3: due[higher], 5: due[first]}
    assert await seen(last) == {3: due[higher], 5: due[last]}


async def test_the_head_of_every_path_is_shown_with_its_time(connection: Connection) -> None:
    later = await connection.fetchval("SELECT now() + interval '1 minute'")
    await enqueue(connection, 2, priority=3)
    await enqueue(connection, 2, priority=7, due_at=later)
    await enqueue(connection, priority=7, delivery="at_most_once", due_at=later + minutes(1))
    await enqueue(connection, queue="other")

    due_index = await call(connection, "next_due", queues=["default", "empty"], **NO_BOUNDS)

    seen = [(row["queue"], row["priority"], row["is_once"], row["is_due"]) for row in due_index]
    assert sorted(seen) == [
        ("default", 3, False, True),
        ("default", 7, False, False),
        ("default", 7, True, False),
    ]
    assert sorted(round(row["seconds"] / 60) for row in due_index) == [0, 1, 2]


async def test_a_run_nobody_can_serve_is_parked_and_goes_when_somebody_can(
    connection: Connection,
) -> None:
    await join(connection)
    [served] = await enqueue(connection)
    unserved = await enqueue(connection, 2, handler="py:rare")
    careful = await enqueue(connection, handler="py:rare", delivery="at_most_once")
    look: dict[str, Any] = {"queues": ["default"], "look": 10}

    blocked = await call(connection, "block_unserved", **look)

    assert sorted(row["id"] for row in blocked) == sorted(unserved + careful)
    assert await call(connection, "unblock", at_most=10) == []
    await join(connection, handlers=["py:rare"], queues=["other"])
    assert await call(connection, "unblock", at_most=10) == []
    rare = await join(connection, handlers=["py:rare"])
    assert len(await call(connection, "unblock", at_most=10)) == 3
    claimed = [run["id"] for run in await claim(connection, rare)]
    assert sorted(claimed) == sorted(unserved + careful)
    assert served not in claimed


async def test_a_claim_of_a_session_that_dies_meanwhile_is_reaped(
    connection: Connection, another: Connect
) -> None:
    """The node is declared dead between the claim's snapshot and its commit."""
    node = await join(connection)
    [run_id] = await enqueue(connection)
    claimer = await another()
    async with claimer.transaction():
        [run] = await claim(claimer, node)
        await call(connection, "leave", incarnation=node.incarnation, reason="declared dead")
        assert await call(connection, "reap_runs", at_most=10) == []

    rows = await call(connection, "reap_runs", at_most=10)
    assert [row["run_id"] for row in rows] == [run_id] == [run["id"]]
