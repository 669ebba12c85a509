"""The rules of admission: event gates block a run, capacity gates are passed in the claim."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    admit,
    claim,
    claim_limited,
    enqueue,
    finish,
    history_row,
    join,
    minutes,
    put_schedule,
    run_row,
)

STATE = "SELECT state, gate, overlap_slot FROM pgcron.run WHERE id = $1"


async def skipping(connection: Connection, **columns: Any) -> dict[str, Any]:
    """Columns of runs of a schedule that skips what overlaps."""
    schedule = await put_schedule(connection, **columns)
    return {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}


async def fires(connection: Connection, schedule: int, *ages: float) -> list[int]:
    """Fires of a schedule, due so many minutes ago."""
    now = await connection.fetchval("SELECT now()")
    return [
        await connection.fetchval(
            "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, overlap, due_at)"
            " VALUES ('schedule', $1, $2, 'py:work', 'skip', $2) RETURNING id",
            schedule,
            now - minutes(age),
        )
        for age in ages
    ]


async def waits(connection: Connection, run: int) -> tuple[str, str | None, int | None]:
    row = await connection.fetchrow(STATE, run)
    assert row is not None
    return row["state"], row["gate"], row["overlap_slot"]


async def execute_one(connection: Connection, node: Node) -> Any:
    await admit(connection)
    [row] = await claim(connection, node, 1)
    return row


async def test_1_a_run_without_an_event_gate_is_born_ready_though_no_node_lives(
    connection: Connection,
) -> None:
    [run] = await enqueue(connection, handler="py:nobody.offers", requires=["gpu"])

    assert await waits(connection, run) == ("ready", None, None)


async def test_2_a_plain_insert_of_a_run_that_may_overlap_is_blocked(
    connection: Connection,
) -> None:
    [run] = await enqueue(connection, **await skipping(connection))

    assert await waits(connection, run) == ("blocked", "overlap", None)
    with pytest.raises(asyncpg.CheckViolationError, match="holds_its_overlap_slot"):
        await connection.execute("UPDATE pgcron.run SET state = 'ready', gate = NULL")


async def test_3_locks_are_rows_that_only_the_engine_may_lock(connection: Connection) -> None:
    """Advisory locks are seen by everybody, and may be taken by whoever may connect."""
    taking = await connection.fetch(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'pgcron'::regnamespace"
        " AND p.prosrc ~ 'advisory'"
    )

    assert {row["proname"] for row in taking} == {
        *("begin_apply", "ensure_partitions", "lock_calendars", "reopen_ledger")
    }


async def test_5_a_pause_rewrites_no_run(connection: Connection) -> None:
    node = await join(connection)
    runs = await enqueue(connection, 2)
    before = await connection.fetch("SELECT xmin::text, ctid::text FROM pgcron.run ORDER BY id")
    await connection.execute("SELECT pgcron.pause_queue('default')")

    assert await claim(connection, node) == []
    assert (
        await connection.fetch("SELECT xmin::text, ctid::text FROM pgcron.run ORDER BY id")
        == before
    )
    await connection.execute("SELECT pgcron.resume_queue('default')")
    assert sorted(row["id"] for row in await claim(connection, node)) == runs


async def test_6_nothing_is_decided_while_nobody_could_start_it_and_then_the_newest_runs(
    connection: Connection,
) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    await connection.execute("SELECT pgcron.pause_queue('default')")
    oldest, middle, newest = await fires(connection, schedule, 3, 2, 1)
    assert dict(await admit(connection)) == {
        "ready": 0,
        "skipped": 0,
        "superseded": 0,
        "left_out": [],
    }

    await connection.execute("SELECT pgcron.resume_queue('default')")
    assert dict(await admit(connection)) == {
        "ready": 1,
        "skipped": 2,
        "superseded": 0,
        "left_out": [],
    }

    assert [row["id"] for row in await claim(connection, node)] == [newest]
    for run in (oldest, middle):
        ended = await history_row(connection, run)
        assert ended is not None
        assert ended["outcome"] == "skipped"
        assert ended["error"].endswith(f"(run {newest})")


async def test_6_a_skip_names_the_run_that_holds_the_slot(connection: Connection) -> None:
    await join(connection)
    node = await join(connection)
    columns = await skipping(connection)
    await enqueue(connection, **columns)
    holder = await execute_one(connection, node)
    [late] = await enqueue(connection, **columns)

    await admit(connection)

    ended = await history_row(connection, late)
    assert ended is not None
    assert ended["error"] == f"the last run is not over (run {holder['id']})"


async def test_7_the_next_fire_has_its_slot_before_it_is_due_and_a_manual_run_may_take_it(
    connection: Connection,
) -> None:
    await join(connection)
    schedule = await put_schedule(connection)
    first, second = await fires(connection, schedule, -1, -2)
    await admit(connection)
    assert await waits(connection, first) == ("ready", None, 1)
    assert await waits(connection, second) == ("blocked", "overlap", None)

    manual = await connection.fetchval("SELECT pgcron.run_now('job')")
    await admit(connection)

    assert await waits(connection, manual) == ("ready", None, 1)
    assert await waits(connection, first) == ("blocked", "overlap", None)


async def test_12_after_an_edit_to_skip_all_running_runs_count(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="allow")
    await enqueue(connection, 2, origin="manual", schedule_id=schedule)
    running = await claim(connection, node)
    assert len(running) == 2
    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    await connection.execute("SELECT pgcron.apply_edit($1)", schedule)
    late = await connection.fetchval("SELECT pgcron.run_now('job')")

    assert (await admit(connection))["skipped"] == 1
    assert await history_row(connection, late) is not None
    await finish(connection, running)
    again = await connection.fetchval("SELECT pgcron.run_now('job')")
    assert (await admit(connection))["ready"] == 1
    assert await waits(connection, again) == ("ready", None, 1)


async def test_12_what_is_due_under_no_limit_waits_for_a_slot_after_an_edit_to_skip(
    connection: Connection,
) -> None:
    await join(connection)
    schedule = await put_schedule(connection, overlap="allow")
    now = await connection.fetchval("SELECT now()")
    run = await connection.fetchval(
        "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, due_at)"
        " VALUES ('schedule', $1, $2, 'py:work', $2) RETURNING id",
        schedule,
        now - minutes(1),
    )

    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    await connection.execute("SELECT pgcron.apply_edit($1)", schedule)

    assert await waits(connection, run) == ("blocked", "overlap", None)


async def test_13_a_start_deadline_ends_a_blocked_run_too(connection: Connection) -> None:
    node = await join(connection)
    columns = await skipping(connection)
    await enqueue(connection, **columns)
    await execute_one(connection, node)
    past = await connection.fetchval("SELECT now() - interval '1 second'")
    [run] = await enqueue(connection, expire_at=past, **columns)

    assert (await admit(connection))["skipped"] == 0  # it is late, not in the way of another

    ended = await connection.fetch(
        "SELECT pgcron.end_waiting_runs(ARRAY[$1::bigint], 'expired', 'too late') AS id", run
    )

    assert [row["id"] for row in ended] == [run]


async def test_15_a_rate_is_counted_when_a_node_with_a_free_slot_claims(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 5, '1 hour')")
    await enqueue(connection, 9, concurrency_key="a")

    assert len(await claim_limited(connection, node, 1)) == 1
    assert await connection.fetchval("SELECT sum(s) FROM pgcron.rate_window, unnest(starts) s") == 1
    assert len(await claim_limited(connection, node, 9)) == 4


async def test_15_another_time_of_a_rate_does_not_close_it(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '1 second')")
    await enqueue(connection, 4, concurrency_key="a")
    assert len(await claim_limited(connection, node)) == 2

    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '1 day')")

    assert len(await claim_limited(connection, node)) == 2
    assert await claim_limited(connection, node) == []


async def test_15_a_limit_that_is_set_in_an_open_transaction_stops_nobody(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    for key in ("a", "b"):
        await connection.execute("SELECT pgcron.set_concurrency($1, 9, 9, '1 hour')", key)
        await enqueue(connection, 2, concurrency_key=key)
    await claim_limited(connection, node, 1)
    person = await another()
    async with person.transaction():
        await person.execute("SELECT pgcron.set_concurrency('a', 9, 9, '1 second')")
        await connection.execute("SET statement_timeout = '1s'")

        assert len(await claim_limited(connection, node)) == 3


async def test_19_full_keys_stand_in_front_of_no_other(connection: Connection) -> None:
    node, other = await join(connection), await join(connection)
    keys = [f"k{number:03}" for number in range(300)]
    for _ in range(2):
        await connection.execute(
            "INSERT INTO pgcron.run (handler, concurrency_key)"
            " SELECT 'py:work', key FROM unnest($1::text[]) key",
            keys,
        )
    assert len(await claim_limited(connection, other, 300, look=400)) == 300
    [free] = await enqueue(connection, concurrency_key="zzz")

    assert [row["id"] for row in await claim_limited(connection, node, 4)] == [free]


async def test_20_what_waits_for_an_overlap_slot_is_no_demand(connection: Connection) -> None:
    node = await join(connection)
    columns = await skipping(connection, overlap="queue")
    runs = await enqueue(connection, 3, **{**columns, "overlap": "queue"})
    await execute_one(connection, node)

    assert await connection.fetchval("SELECT pgcron.scale_demand()") == 1
    row = await run_row(connection, runs[1])
    assert row is not None
    assert row["state"] == "blocked"
