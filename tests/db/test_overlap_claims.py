from __future__ import annotations

import asyncio
from typing import Any, Literal

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    admit,
    claim_overlapping,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    minutes,
    put_schedule,
    reap,
    release,
)

HOLD = (
    "UPDATE pgcron.run SET state = 'running', gate = NULL, owner = $2, token = gen_random_uuid(),"
    " fence = 1, attempt = 1, claimed_at = now(), overlap_slot = 1 WHERE id = $1"
)


async def schedule(connection: Connection, name: str = "job") -> dict[str, Any]:
    """Columns of runs that must not overlap."""
    schedule = await put_schedule(connection, name)
    return {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}


async def test_a_due_run_takes_the_slot_of_its_schedule(connection: Connection) -> None:
    node = await join(connection)
    [run_id] = await enqueue(connection, **await schedule(connection))

    [run], skipped = await claim_overlapping(connection, node)

    assert (run["id"], run["attempt"], skipped) == (run_id, 1, [])
    assert await connection.fetchval("SELECT overlap_slot FROM pgcron.run") == 1


async def test_a_due_run_is_skipped_while_the_last_one_executes(connection: Connection) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, **columns)
    [holder], _ = await claim_overlapping(connection, node)
    [late] = await enqueue(connection, **columns)

    claimed, skipped = await claim_overlapping(connection, node)

    assert (claimed, skipped) == ([], [late])
    ended = await history_row(connection, late)
    assert ended is not None
    assert ended["outcome"] == "skipped"
    assert await finish(connection, [holder]) == [holder["id"]]


async def test_a_due_run_is_skipped_while_the_last_one_waits_for_its_retry(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, **columns)
    [holder], _ = await claim_overlapping(connection, node)
    await fail(connection, [holder], retry_after=3600.0)
    [late] = await enqueue(connection, **columns)

    assert await claim_overlapping(connection, node) == ([], [late])


async def test_a_retry_that_is_due_goes_before_a_newer_run_of_a_higher_priority(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, **columns)
    [holder], _ = await claim_overlapping(connection, node)
    await fail(connection, [holder], retry_after=0.0)
    [late] = await enqueue(connection, priority=0, **columns)

    [again], skipped = await claim_overlapping(connection, node)

    assert (again["id"], again["attempt"], skipped) == (holder["id"], 2, [late])


async def test_of_two_due_runs_the_first_is_claimed_and_the_second_skipped(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    now = await connection.fetchval("SELECT now()")
    [second] = await enqueue(connection, due_at=now - minutes(1), **columns)
    [first] = await enqueue(connection, due_at=now - minutes(2), **columns)

    [run], skipped = await claim_overlapping(connection, node)

    assert (run["id"], skipped) == (first, [second])


async def test_a_long_backlog_of_a_schedule_is_skipped_in_batches(connection: Connection) -> None:
    node = await join(connection)
    runs = await enqueue(connection, 1300, **await schedule(connection))

    rounds = [await claim_overlapping(connection, node) for _ in range(3)]

    assert [(len(claimed), len(skipped)) for claimed, skipped in rounds] == [
        (1, 1000),
        (0, 299),
        (0, 0),
    ]
    assert await connection.fetchval("SELECT id FROM pgcron.run") == runs[0]


async def test_a_schedule_over_the_limit_keeps_its_first_run(connection: Connection) -> None:
    node = await join(connection)
    for name in ("a", "b", "c"):
        await enqueue(connection, 2, **await schedule(connection, name))

    claimed, skipped = await claim_overlapping(connection, node, limit=1)

    assert (len(claimed), len(skipped)) == (1, 3)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'") == 2


async def test_a_node_without_room_still_skips_what_finds_its_schedule_held(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, **columns)
    await claim_overlapping(connection, node)
    [late] = await enqueue(connection, **columns)
    [free] = await enqueue(connection, **await schedule(connection, "other"))

    assert await claim_overlapping(connection, node, limit=0) == ([], [late])
    [run], _ = await claim_overlapping(connection, node)
    assert run["id"] == free


@pytest.mark.parametrize("ended_by", ["finished", "released", "reaped and retried", "cancelled"])
async def test_a_schedule_is_free_when_its_holder_is_over(
    connection: Connection, ended_by: str
) -> None:
    node, living = await join(connection), await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, **columns)
    [holder], _ = await claim_overlapping(connection, node)
    if ended_by == "finished":
        await finish(connection, [holder])
    elif ended_by == "released":
        await release(connection, [holder])
        await connection.execute("SELECT pgcron.cancel_run($1)", holder["id"])
    elif ended_by == "cancelled":
        await fail(connection, [holder], kind="cancelled")
    else:
        await kill(connection, node)
        await reap(connection)
        [again], _ = await claim_overlapping(connection, living)
        await finish(connection, [again])
    [run_id] = await enqueue(connection, **columns)

    [run], _ = await claim_overlapping(connection, living)

    assert run["id"] == run_id


async def test_a_schedule_nobody_holds_keeps_a_run_that_can_not_be_claimed_here(
    connection: Connection,
) -> None:
    node = await join(connection, handlers=["py:other"])
    await enqueue(connection, **await schedule(connection))

    assert await claim_overlapping(connection, node) == ([], [])
    assert await connection.fetchval("SELECT state FROM pgcron.run") == "blocked"


@pytest.mark.parametrize(
    "obstacle",
    [
        "SELECT pgcron.pause_queue('default')",
        "UPDATE pgcron.cluster SET paused_at = now()",
        "UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 minute'",
        "UPDATE pgcron.node SET lease_until = now() - interval '1 second'",
        "UPDATE pgcron.node SET state = 'draining'",
        "UPDATE pgcron.run SET expire_at = now()",
        "UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'",
    ],
)
async def test_a_schedule_is_not_claimed_against_an_obstacle(
    connection: Connection, obstacle: str
) -> None:
    node = await join(connection)
    await enqueue(connection, 2, **await schedule(connection))
    await connection.execute(obstacle)

    assert await claim_overlapping(connection, node) == ([], [])


async def test_a_schedule_that_somebody_decides_is_left_to_them(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    await enqueue(connection, 2, **await schedule(connection))
    first, second = await another(), await another()
    async with first.transaction():
        chosen, _ = await claim_overlapping(first, node)
        assert len(chosen) == 1
        assert await claim_overlapping(second, node) == ([], [])


async def test_a_schedule_that_was_decided_meanwhile_is_seen_as_it_is_now(
    connection: Connection, another: Connect
) -> None:
    """The decision knows of a due run in a free schedule, and gets the lock after somebody else
    had it. Without the net: what the unique index refuses would be an error here.
    """
    await connection.execute("DROP INDEX pgcron.run_overlap_slot")
    node = await join(connection)
    columns = await schedule(connection)
    await enqueue(connection, 2, **columns)
    other = await another()
    async with other.transaction():
        await admit(other)
        meanwhile = await admit(connection)
        assert (meanwhile["ready"], len(meanwhile["left_out"])) == (0, 1)
    [third] = await enqueue(connection, **columns)

    claimed, skipped = await claim_overlapping(connection, node)

    assert (len(claimed), skipped) == (1, [third])


async def test_a_run_that_somebody_has_locked_makes_nobody_wait(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    columns = await schedule(connection)
    [locked] = await enqueue(connection, **columns)
    [other] = await enqueue(connection, **await schedule(connection, "other"))
    user = await another()
    async with user.transaction():
        await user.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", locked)
        claimed, skipped = await claim_overlapping(connection, node)

    assert ([run["id"] for run in claimed], skipped) == ([other], [])
    [late] = await enqueue(connection, **columns)
    [run], skipped = await claim_overlapping(connection, node)
    assert (run["id"], skipped) == (locked, [late])


async def test_a_run_that_was_cancelled_meanwhile_leaves_its_schedule_to_the_next(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    first, second = await enqueue(connection, 2, **await schedule(connection))
    user = await another()
    async with user.transaction():
        await user.execute("SELECT pgcron.cancel_run($1)", first)
        assert await claim_overlapping(connection, node) == ([], [])

    [run], skipped = await claim_overlapping(connection, node)
    assert (run["id"], skipped) == (second, [])


async def test_a_paused_queue_full_of_schedules_stands_in_nobodys_way(
    connection: Connection,
) -> None:
    node = await join(connection, queues=["paused", "default"])
    await connection.execute("SELECT pgcron.pause_queue('paused')")
    for number in range(10):
        columns = await schedule(connection, f"job {number}")
        await enqueue(connection, queue="paused", priority=0, **columns)
    [run_id] = await enqueue(connection, **await schedule(connection, "other"))

    [run], _ = await claim_overlapping(connection, node, 1)

    assert run["id"] == run_id


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_schedules_are_not_decided_with_an_old_snapshot(
    connection: Connection, isolation: Literal["repeatable_read", "serializable"]
) -> None:
    node = await join(connection)
    with pytest.raises(asyncpg.PostgresError, match="are not decided under") as refused:
        async with connection.transaction(isolation=isolation):
            await claim_overlapping(connection, node)
    assert refused.value.sqlstate == "PC001"


async def test_eight_claimers_never_make_two_holders(
    connection: Connection, another: Connect
) -> None:
    """Without the net: what the unique index refuses would be an error here."""
    await connection.execute("DROP INDEX pgcron.run_overlap_slot")
    schedules = [await schedule(connection, f"job {number}") for number in range(6)]
    for columns in schedules:
        await enqueue(connection, 25, **columns)
    most_holders = 0

    async def work(own: Connection, failing: bool) -> None:
        nonlocal most_holders
        node = await join(own)
        for turn in range(25):
            claimed, _ = await claim_overlapping(own, node, limit=2)
            holders = await own.fetchval(
                "SELECT max(holders) FROM (SELECT count(*) AS holders FROM pgcron.run "
                "WHERE overlap_slot IS NOT NULL GROUP BY schedule_id) schedules"
            )
            most_holders = max(most_holders, holders or 0)
            if failing and turn % 3 == 0:
                await fail(own, claimed, retry_after=0.0)
            else:
                await finish(own, claimed)
            await enqueue(own, 2, **schedules[turn % len(schedules)])

    claimers = [await another() for _ in range(8)]
    await asyncio.gather(*(work(own, number % 2 == 0) for number, own in enumerate(claimers)))

    assert most_holders == 1
    ended = await connection.fetch("SELECT outcome, count(*) FROM pgcron.history GROUP BY outcome")
    assert {row["outcome"] for row in ended} >= {"succeeded", "skipped"}


async def test_a_second_holder_is_refused_by_the_net(connection: Connection) -> None:
    node = await join(connection)
    first, second = await enqueue(connection, 2, **await schedule(connection))
    await connection.execute(HOLD, first, node.incarnation)

    with pytest.raises(asyncpg.UniqueViolationError, match="run_overlap_slot"):
        await connection.execute(HOLD, second, node.incarnation)
