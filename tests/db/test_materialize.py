from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.db.control import (
    Connect,
    Connection,
    Dropped,
    Row,
    call,
    cursor_of,
    database_now,
    fires_ahead,
    history_row,
    materialize,
    materialize_many,
    minutes,
    put_schedule,
    waits_for_lock,
)


async def ledger(connection: Connection) -> list[tuple[str, int | None]]:
    rows = await connection.fetch(
        "SELECT decision, run_id FROM pgcron.occurrence ORDER BY schedule_id, fire_at"
    )
    return [(row["decision"], row["run_id"]) for row in rows]


async def run_of_fire(connection: Connection, fire: datetime) -> Row:
    row = await connection.fetchrow("SELECT * FROM pgcron.run WHERE scheduled_for = $1", fire)
    assert row is not None
    return row


async def test_a_fire_becomes_a_row_of_the_ledger_and_a_run(connection: Connection) -> None:
    schedule = await put_schedule(
        connection,
        args='{"day": 1}',
        queue="reports",
        priority=2,
        start_deadline=minutes(5),
        max_attempts=3,
    )
    [fire] = await fires_ahead(connection, 1)

    moved = await materialize(connection, await cursor_of(connection, schedule), [fire])

    assert moved == (1, 1)
    run = await run_of_fire(connection, fire)
    assert await ledger(connection) == [("run", run["id"])]
    assert (run["origin"], run["schedule"], run["state"], run["due_at"]) == (
        "schedule",
        "job",
        "blocked",
        fire,
    )
    assert (run["args"], run["queue"], run["priority"]) == ('{"day": 1}', "reports", 2)
    assert (run["max_attempts"], run["expire_at"]) == (3, fire + minutes(5))
    assert run["overlap"] == "skip"
    cursor = await cursor_of(connection, schedule)
    assert (cursor["watermark"], cursor["status"]) == (fire, "valid")


async def test_a_late_fire_is_due_now_and_not_before(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 day'")
    fire = await connection.fetchval("SELECT now() - interval '1 hour'")

    await materialize(connection, await cursor_of(connection, schedule), [fire])

    run = await run_of_fire(connection, fire)
    assert run["due_at"] == run["created_at"]


async def test_ten_nodes_decide_each_fire_once(connection: Connection, another: Connect) -> None:
    schedules = [await put_schedule(connection, f"job {number}") for number in range(20)]
    cursors = [await cursor_of(connection, schedule) for schedule in schedules]
    fires = await fires_ahead(connection, 5)
    nodes = [await another() for _ in range(10)]

    answers = await asyncio.gather(
        *(materialize_many(node, cursors, [fires] * 20) for node in nodes)
    )

    assert sum(moved for moved, _ in answers) == 20
    assert sum(runs for _, runs in answers) == 100
    doubled = await connection.fetch(
        "SELECT FROM pgcron.run GROUP BY schedule_id, scheduled_for HAVING count(*) > 1"
    )
    assert doubled == []
    assert await connection.fetchval("SELECT count(*) FROM pgcron.occurrence") == 100


async def test_a_stale_watermark_decides_nothing(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    stale = await cursor_of(connection, schedule)
    first, second = await fires_ahead(connection, 2)
    await materialize(connection, stale, [first])

    assert await materialize(connection, stale, [first, second]) == (0, 0)
    assert len(await ledger(connection)) == 1


async def test_a_plan_of_an_older_generation_decides_nothing(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    stale = await cursor_of(connection, schedule)
    await connection.execute("UPDATE pgcron.schedule SET spec = '30 4 * * *'")
    dropped = [Dropped(stale["watermark"], stale["watermark"])]

    assert await materialize(
        connection, stale, await fires_ahead(connection, 1), dropped=dropped
    ) == (0, 0)
    assert await ledger(connection) == []
    # What was owed between creation and edit is told by the edit itself.
    missed = "SELECT count(*) FROM pgcron.missed WHERE reason <> 'edited'"
    assert await connection.fetchval(missed) == 0


async def test_a_schedule_under_edit_is_left_out_and_the_others_are_decided(
    connection: Connection, another: Connect
) -> None:
    edited, other = [await put_schedule(connection, name) for name in ("edited", "other")]
    cursors = [await cursor_of(connection, schedule) for schedule in (edited, other)]
    fires = await fires_ahead(connection, 1)
    editor = await another()
    async with editor.transaction():
        await editor.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}' WHERE id = $1", edited)
        assert await materialize_many(connection, cursors, [fires, fires]) == (1, 1)
    assert await materialize_many(connection, cursors, [fires, fires]) == (0, 0)


async def test_an_edit_that_waits_for_the_materializer_removes_what_it_made(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection)
    cursor = await cursor_of(connection, schedule)
    fires = await fires_ahead(connection, 3)
    node, editor = await another(), await another()
    async with node.transaction():
        assert await materialize(node, cursor, fires) == (1, 3)
        editing = asyncio.create_task(editor.execute("UPDATE pgcron.schedule SET spec = '@daily'"))
        await waits_for_lock(connection, editor)
    await editing

    assert await ledger(connection) == []
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    after = await cursor_of(connection, schedule)
    assert after["generation"] == cursor["generation"] + 1
    assert after["watermark"] < fires[0]


async def test_an_unreadable_schedule_is_marked_and_harms_no_other(connection: Connection) -> None:
    bad, good = [await put_schedule(connection, name) for name in ("bad", "good")]
    cursors = [await cursor_of(connection, schedule) for schedule in (bad, good)]
    fires = await fires_ahead(connection, 1)
    # A node of another version can read it, and has planned it before this one marks it.
    await call(
        connection,
        "mark_invalid",
        schedule_id=bad,
        generation=cursors[0]["generation"],
        error='{"message": "cannot be read"}',
        retry_after=None,
    )

    assert await materialize_many(connection, cursors, [fires, fires]) == (2, 2)
    statuses = await connection.fetch("SELECT status, error FROM pgcron.cursor")
    assert [(row["status"], row["error"]) for row in statuses] == [("valid", None)] * 2


async def test_an_invalid_schedule_is_not_due_until_it_is_edited(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    generation = (await cursor_of(connection, schedule))["generation"]
    due = {"refill": 60.0, "at_most": 10, "aside": []}
    assert len(await call(connection, "due_cursors", **due)) == 1

    await call(
        connection,
        "mark_invalid",
        schedule_id=schedule,
        generation=generation,
        error='{"m": 1}',
        retry_after=None,
    )
    shown = await connection.fetchrow("SELECT status, error FROM pgcron.schedules")
    assert shown is not None
    assert (shown["status"], shown["error"]) == ("invalid", '{"m": 1}')
    assert await call(connection, "due_cursors", **due) == []

    await connection.execute("UPDATE pgcron.schedule SET spec = '@daily'")
    assert len(await call(connection, "due_cursors", **due)) == 1
    stale = await call(
        connection,
        "mark_invalid",
        schedule_id=schedule,
        generation=generation,
        error='{"m": 1}',
        retry_after=None,
    )
    assert stale == []


async def test_an_invalid_schedule_is_looked_at_again(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await connection.execute("UPDATE pgcron.cursor SET status = 'invalid', error = '{}'")

    rows = await call(connection, "recheck_invalid", judge="a newer one", at_most=9)

    assert [row["schedule_id"] for row in rows] == [schedule]
    assert (await cursor_of(connection, schedule))["status"] == "unchecked"


async def test_a_jump_of_the_watermark_is_a_row_of_missed(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 day'")
    cursor = await cursor_of(connection, schedule)
    first, last = cursor["watermark"] + minutes(1), await database_now(connection)
    dropped = [Dropped(first, last, 1439)]

    assert await materialize(connection, cursor, watermark=last, dropped=dropped) == (1, 0)
    assert await materialize(connection, cursor, watermark=last, dropped=dropped) == (0, 0)

    row = await connection.fetchrow("SELECT * FROM pgcron.missed")
    assert row is not None
    assert (row["first_at"], row["last_at"], row["fires"]) == (first, last, 1439)
    why = await connection.fetchrow("SELECT * FROM pgcron.why('job', $1)", first + minutes(10))
    assert why is not None
    assert (why["decision"], why["reason"]) == ("missed", "catchup_latest")


async def test_the_watermark_never_goes_back_by_a_plan(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    cursor = await cursor_of(connection, schedule)

    moved = await materialize(connection, cursor, watermark=cursor["watermark"] - minutes(1))

    assert moved == (0, 0)


async def test_a_skipped_fire_is_in_the_ledger_with_its_reason(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    first, second = await fires_ahead(connection, 2)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, note, actor) "
        "VALUES ($1, $2, 'skip', 'holiday', 'ops')",
        schedule,
        first,
    )

    assert await materialize(
        connection, await cursor_of(connection, schedule), [first, second]
    ) == (1, 1)

    run = await run_of_fire(connection, second)
    assert await ledger(connection) == [("skipped", None), ("run", run["id"])]
    why = await connection.fetchrow("SELECT * FROM pgcron.why('job', $1)", first)
    assert why is not None
    assert (why["decision"], why["reason"]) == ("skipped", "skipped by ops: holiday")


async def test_a_moved_fire_is_due_at_its_new_time_and_expires_after_it(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection, start_deadline=minutes(5))
    [fire] = await fires_ahead(connection, 1)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, due_at) "
        "VALUES ($1, $2, 'move', $3)",
        schedule,
        fire,
        fire + minutes(120),
    )

    await materialize(connection, await cursor_of(connection, schedule), [fire])

    run = await run_of_fire(connection, fire)
    assert (run["due_at"], run["expire_at"]) == (fire + minutes(120), fire + minutes(125))


async def test_an_edited_fire_has_args_of_its_own(connection: Connection) -> None:
    schedule = await put_schedule(connection, args='{"a": 1}')
    first, second = await fires_ahead(connection, 2)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, args) "
        "VALUES ($1, $2, 'edit', '{\"a\": 2}')",
        schedule,
        first,
    )

    await materialize(connection, await cursor_of(connection, schedule), [first, second])

    assert (await run_of_fire(connection, first))["args"] == '{"a": 2}'
    assert (await run_of_fire(connection, second))["args"] == '{"a": 1}'


@pytest.mark.parametrize("first", ["materializer", "backfill"])
async def test_a_fire_that_somebody_else_put_into_the_ledger_gets_no_second_run(
    connection: Connection, another: Connect, first: str
) -> None:
    schedule = await put_schedule(connection)
    cursor = await cursor_of(connection, schedule)
    [fire] = await fires_ahead(connection, 1)
    node, backfill = await another(), await another()
    insert = (
        "INSERT INTO pgcron.occurrence VALUES ($1, $2, 'run', NULL, 999) ON CONFLICT DO NOTHING"
    )
    early, late = (node, backfill) if first == "materializer" else (backfill, node)

    async def act(actor: Connection) -> None:
        if actor is node:
            await materialize(node, cursor, [fire])
        else:
            await backfill.execute(insert, schedule, fire)

    async with early.transaction():
        await act(early)
        waiting = asyncio.create_task(act(late))
        await waits_for_lock(connection, late)
    await waiting

    assert len(await ledger(connection)) == 1
    runs = await connection.fetchval("SELECT count(*) FROM pgcron.run")
    assert runs == (1 if first == "materializer" else 0)


async def test_a_cancelled_fire_stays_cancelled_in_the_ledger(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    [fire] = await fires_ahead(connection, 1)
    await materialize(connection, await cursor_of(connection, schedule), [fire])
    run = await run_of_fire(connection, fire)
    await connection.execute("SELECT pgcron.cancel_run($1, 'no')", run["id"])

    await connection.execute("UPDATE pgcron.schedule SET priority = 1")
    again = await materialize(connection, await cursor_of(connection, schedule), [fire])

    assert again == (1, 0)
    assert await ledger(connection) == [("cancelled", run["id"])]
    assert await history_row(connection, run["id"]) is not None


async def test_new_schedules_and_both_ends_of_those_that_are_due_take_turns(
    connection: Connection,
) -> None:
    ids = [await put_schedule(connection, f"s{number}") for number in range(6)]
    for place, schedule in enumerate(ids[3:]):
        await connection.execute(
            "UPDATE pgcron.cursor SET next_fire = now() + $2 * interval '1 s'"
            " WHERE schedule_id = $1",
            *(schedule, place),
        )

    due = [
        row["schedule_id"]
        for row in await call(connection, "due_cursors", refill=60.0, at_most=4, aside=[])
    ]

    assert {due[0], due[3]} < set(ids[:3])
    assert (due[1], due[2]) == (ids[3], ids[5])


async def test_due_cursors_are_those_with_fires_before_the_horizon(connection: Connection) -> None:
    names = ["new", "soon", "later", "never", "paused"]
    ids = {name: await put_schedule(connection, name) for name in names}
    await connection.execute("UPDATE pgcron.schedule SET enabled = false WHERE name = 'paused'")
    for name, hint in (
        ("soon", "now() + interval '50 s'"),
        ("later", "now() + interval '70 s'"),
        ("never", "'infinity'"),
    ):
        await connection.execute(
            f"UPDATE pgcron.cursor SET next_fire = {hint} WHERE schedule_id = $1", ids[name]
        )

    due = await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[])

    assert [row["schedule_id"] for row in due] == [ids["new"], ids["soon"]]
    assert (due[0]["spec"], due[0]["timezone"], due[0]["catchup_window"]) == (
        "* * * * *",
        "UTC",
        minutes(60),
    )
