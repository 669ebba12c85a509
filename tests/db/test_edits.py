from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    claim,
    cursor_of,
    database_now,
    fail,
    finish,
    history_row,
    join,
    materialize,
    minutes,
    put_schedule,
    waits_for_lock,
)


async def fires_around_now(connection: Connection) -> tuple[datetime, datetime]:
    """(a fire that is due, one that is to come)."""
    now = await database_now(connection)
    return now - minutes(1), now + minutes(1)


async def schedule_with_fires(connection: Connection) -> tuple[int, datetime, datetime]:
    """A schedule without a key, with one due and one future run."""
    schedule = await put_schedule(connection, overlap="allow")
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    due, ahead = await fires_around_now(connection)
    await materialize(connection, await cursor_of(connection, schedule), [due, ahead])
    return schedule, due, ahead


async def live_fires(connection: Connection) -> set[datetime]:
    rows = await connection.fetch("SELECT scheduled_for FROM pgcron.run")
    return {row["scheduled_for"] for row in rows}


async def decided_fires(connection: Connection) -> set[datetime]:
    rows = await connection.fetch("SELECT fire_at FROM pgcron.occurrence")
    return {row["fire_at"] for row in rows}


async def versions(connection: Connection) -> list[Row]:
    rows: list[Row] = await connection.fetch(
        "SELECT * FROM pgcron.schedule_version ORDER BY schedule_id, version"
    )
    return rows


@pytest.mark.parametrize(
    "edit",
    [
        "spec = '30 4 * * *'",
        "args = '{\"a\": 1}'",
        "handler = 'py:other'",
        "timezone = 'Asia/Tokyo'",
    ],
)
async def test_an_edit_keeps_what_is_due_and_forgets_what_is_to_come(
    connection: Connection, edit: str
) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    before = await cursor_of(connection, schedule)

    await connection.execute(f"UPDATE pgcron.schedule SET {edit}")

    assert await live_fires(connection) == await decided_fires(connection) == {due}
    cursor = await cursor_of(connection, schedule)
    assert cursor["generation"] == before["generation"] + 1
    assert (cursor["status"], cursor["next_fire"]) == ("unchecked", None)
    assert due < cursor["watermark"] < ahead
    assert await materialize(connection, cursor, [ahead]) == (1, 1)


@pytest.mark.parametrize("edit", ["name = name", "catchup = 'none'", "managed_by = 'cli'"])
async def test_an_edit_of_no_fire_leaves_the_fires_alone(connection: Connection, edit: str) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    before = await cursor_of(connection, schedule)

    await connection.execute(f"UPDATE pgcron.schedule SET {edit}")

    assert await live_fires(connection) == {due, ahead}
    assert (await cursor_of(connection, schedule))["generation"] == before["generation"]


async def test_a_claim_before_the_edit_keeps_its_fire(
    connection: Connection, another: Connect
) -> None:
    schedule, due, _ = await schedule_with_fires(connection)
    node = await join(connection)
    claimer, editor = await another(), await another()
    async with claimer.transaction():
        [run] = await claim(claimer, node)
        editing = asyncio.create_task(editor.execute("UPDATE pgcron.schedule SET spec = '@daily'"))
        await waits_for_lock(connection, editor)
    await editing

    assert await decided_fires(connection) == {due}
    assert (await cursor_of(connection, schedule))["watermark"] > due
    assert await finish(connection, [run]) == [run["id"]]


async def test_a_claim_during_the_edit_finds_its_rows_locked(
    connection: Connection, another: Connect
) -> None:
    await schedule_with_fires(connection)
    node = await join(connection)
    editor = await another()
    async with editor.transaction():
        await editor.execute("UPDATE pgcron.schedule SET spec = '@daily'")
        assert await claim(connection, node) == []
    assert len(await claim(connection, node)) == 1


async def test_a_fire_that_becomes_due_while_the_edit_waits_is_kept(
    connection: Connection, another: Connect
) -> None:
    """The edit reads the clock only when nobody can start its rows any more."""
    schedule = await put_schedule(connection, overlap="allow")
    fire = await database_now(connection) + timedelta(seconds=0.5)
    await materialize(connection, await cursor_of(connection, schedule), [fire])
    node = await join(connection)
    holder, editor = await another(), await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM pgcron.run FOR UPDATE")
        editing = asyncio.create_task(editor.execute("UPDATE pgcron.schedule SET spec = '@daily'"))
        await waits_for_lock(connection, editor)
        await connection.execute("SELECT pg_sleep_until($1)", fire)
    await editing

    assert await decided_fires(connection) == {fire}
    assert len(await claim(connection, node)) == 1


async def test_an_edit_that_is_rolled_back_changes_nothing(
    connection: Connection, another: Connect
) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    before = await cursor_of(connection, schedule)
    editor = await another()
    transaction = editor.transaction()
    await transaction.start()
    await editor.execute("UPDATE pgcron.schedule SET spec = '@daily'")
    await transaction.rollback()

    assert await live_fires(connection) == await decided_fires(connection) == {due, ahead}
    assert await cursor_of(connection, schedule) == before


async def test_edits_while_fires_are_claimed_neither_double_nor_lose_one(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection, "busy", overlap="allow")
    start = await database_now(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", start)
    ended: list[int] = []
    is_over = asyncio.Event()
    step = timedelta(milliseconds=20)

    async def plan(own: Connection) -> None:
        """Every 20 ms from the start, up to 200 ms ahead."""
        while not is_over.is_set():
            cursor = await cursor_of(own, schedule)
            now = await database_now(own)
            first = (cursor["watermark"] - start) // step + 1
            last = (now + 10 * step - start) // step
            await materialize(own, cursor, [start + n * step for n in range(first, last + 1)])

    async def work(own: Connection) -> None:
        node = await join(own)
        while not is_over.is_set():
            ended.extend(await finish(own, await claim(own, node, 3)))

    async def edit(own: Connection) -> None:
        number = 0
        while number < 60 or len(ended) < 10:
            await own.execute("UPDATE pgcron.schedule SET args = $1", f'{{"n": {number}}}')
            number += 1
        is_over.set()

    workers = [plan(await another()), plan(await another())]
    workers += [work(await another()) for _ in range(3)]
    await asyncio.gather(*workers, edit(await another()))

    rows = await connection.fetch("SELECT scheduled_for FROM pgcron.history ORDER BY 1")
    fires = [row["scheduled_for"] for row in rows]
    live = await live_fires(connection)
    assert ended
    assert len(ended) == len(fires) == len(set(fires))
    assert not live & set(fires)
    watermark = (await cursor_of(connection, schedule))["watermark"]
    owed = {start + n * step for n in range(1, (watermark - start) // step + 1)}
    assert live | set(fires) == await decided_fires(connection) == owed


async def test_an_edit_in_repeatable_read_is_finished_by_a_node(
    connection: Connection, another: Connect
) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    editor = await another()
    async with editor.transaction(isolation="repeatable_read"):
        await editor.execute("UPDATE pgcron.schedule SET spec = '@daily'")

    cursor = await cursor_of(connection, schedule)
    assert cursor["edit_is_pending"]
    assert await live_fires(connection) == {due, ahead}
    assert await materialize(connection, cursor, [ahead + minutes(1)]) == (0, 0)
    assert await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[]) == []
    [pending] = await call(connection, "pending_edits", at_most=10, aside=[])
    await call(connection, "apply_edit", schedule_id=pending["schedule_id"])

    assert await live_fires(connection) == await decided_fires(connection) == {due}
    assert await call(connection, "pending_edits", at_most=10, aside=[]) == []


async def test_a_repeatable_read_edit_that_missed_new_fires_is_refused(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection)
    editor = await another()
    transaction = editor.transaction(isolation="repeatable_read")
    await transaction.start()
    await editor.execute("SELECT 1 FROM pgcron.run")
    _, ahead = await fires_around_now(connection)
    await materialize(connection, await cursor_of(connection, schedule), [ahead])

    with pytest.raises(asyncpg.SerializationError):
        await editor.execute("UPDATE pgcron.schedule SET spec = '@daily'")
    await transaction.rollback()


async def test_a_pause_is_one_range_of_missed_fires_with_its_note(connection: Connection) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    await connection.execute("SELECT pgcron.pause_schedule('job', 'deploy', 'ops')")

    paused = await cursor_of(connection, schedule)
    assert await live_fires(connection) == {due}
    assert (paused["is_paused"], paused["pause_note"]) == (True, "ops: deploy")
    assert await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[]) == []
    why = await connection.fetchrow("SELECT * FROM pgcron.why('job', $1)", ahead)
    assert why is not None
    assert (why["decision"], why["reason"]) == ("not yet", "paused by ops: deploy")

    await connection.execute("SELECT pgcron.resume_schedule('job')")

    resumed = await cursor_of(connection, schedule)
    missed = await connection.fetchrow("SELECT * FROM pgcron.missed")
    assert missed is not None
    assert (missed["reason"], missed["note"]) == ("paused", "ops: deploy")
    assert missed["first_at"] == paused["watermark"] + timedelta(microseconds=1)
    assert missed["last_at"] == resumed["watermark"]
    again = await connection.fetchrow("SELECT enabled, paused_note, paused_by FROM pgcron.schedule")
    assert again is not None
    assert tuple(again) == (True, None, None)


async def test_every_jump_of_a_watermark_without_a_plan_is_a_missed_range(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection)
    covered = (await cursor_of(connection, schedule))["watermark"]
    for edit in ("enabled = false", "priority = 3", "enabled = true", "spec = '@daily'") * 3:
        await connection.execute(f"UPDATE pgcron.schedule SET {edit}")
        watermark = (await cursor_of(connection, schedule))["watermark"]
        if watermark > covered:
            missed = await connection.fetchval(
                "SELECT count(*) FROM pgcron.missed WHERE last_at = $1 AND first_at = $2",
                watermark,
                covered + timedelta(microseconds=1),
            )
            assert missed == 1
        covered = watermark


async def decided_long_ago(
    connection: Connection, next_fire: datetime | None = None, **columns: Any
) -> tuple[int, datetime]:
    """A schedule whose fires are decided up to two hours ago; its next fire as it was known."""
    schedule = await put_schedule(connection, **columns)
    now = await database_now(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", now - minutes(121))
    cursor, covered = await cursor_of(connection, schedule), now - minutes(120)
    moved = await materialize(connection, cursor, watermark=covered, next_fire=next_fire)
    assert moved == (1, 0)
    return schedule, covered


async def missed_ranges(connection: Connection) -> list[tuple[str, datetime, datetime]]:
    rows = await connection.fetch("SELECT * FROM pgcron.missed ORDER BY first_at")
    return [(row["reason"], row["first_at"], row["last_at"]) for row in rows]


@pytest.mark.parametrize("edit", ["spec = '* * * * *'", "timezone = 'Asia/Tokyo'", "priority = 3"])
async def test_an_edit_decides_nothing_before_itself_when_nothing_was_owed(
    connection: Connection, edit: str
) -> None:
    """A daily schedule that becomes an hourly one at noon owes no fire of the morning."""
    tomorrow = await database_now(connection) + timedelta(days=1)
    schedule, _ = await decided_long_ago(connection, tomorrow, spec="0 3 * * *")
    before = await database_now(connection)

    await connection.execute(f"UPDATE pgcron.schedule SET {edit}")

    assert (await cursor_of(connection, schedule))["watermark"] >= before
    assert await missed_ranges(connection) == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_the_old_timing_owed_and_nobody_decided_is_told_as_missed(
    connection: Connection, is_known: bool
) -> None:
    ago = await database_now(connection) - minutes(60)
    schedule, covered = await decided_long_ago(connection, ago if is_known else None)

    await connection.execute("UPDATE pgcron.schedule SET spec = '@daily'")

    watermark = (await cursor_of(connection, schedule))["watermark"]
    first = covered + timedelta(microseconds=1)
    assert await missed_ranges(connection) == [("edited", first, watermark)]


async def test_what_is_undecided_is_still_decided_when_only_the_work_is_edited(
    connection: Connection,
) -> None:
    ago = await database_now(connection) - minutes(60)
    schedule, covered = await decided_long_ago(connection, ago)

    await connection.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}'")

    assert (await cursor_of(connection, schedule))["watermark"] == covered
    assert await missed_ranges(connection) == []


async def test_an_edit_in_repeatable_read_decides_nothing_before_itself_either(
    connection: Connection, another: Connect
) -> None:
    ago = await database_now(connection) - minutes(60)
    schedule, covered = await decided_long_ago(connection, ago)
    editor = await another()
    for edit in ("spec = '@daily'", "priority = 3"):
        async with editor.transaction(isolation="repeatable_read"):
            await editor.execute(f"UPDATE pgcron.schedule SET {edit}")

    await call(connection, "apply_edit", schedule_id=schedule)

    [(reason, first, last)] = await missed_ranges(connection)
    assert (reason, first) == ("edited", covered + timedelta(microseconds=1))
    assert last == (await cursor_of(connection, schedule))["watermark"]


@pytest.mark.parametrize("pause", ["", "SELECT pgcron.pause_schedule('job')"])
async def test_what_a_deleted_schedule_owed_is_told(connection: Connection, pause: str) -> None:
    ago = await database_now(connection) - minutes(60)
    _, covered = await decided_long_ago(connection, ago)
    if pause:
        await connection.execute(pause)

    await connection.execute("DELETE FROM pgcron.schedule")

    [(reason, first, _)] = await missed_ranges(connection)
    assert (reason, first) == (
        "paused" if pause else "deleted",
        covered + timedelta(microseconds=1),
    )


async def test_a_schedule_that_begins_paused_fires_nothing_until_it_is_resumed(
    connection: Connection,
) -> None:
    await put_schedule(connection, enabled=False, paused_note="not yet")

    assert await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[]) == []
    await connection.execute("UPDATE pgcron.schedule SET enabled = true")
    assert len(await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[])) == 1


async def test_a_deleted_schedule_ends_what_waits_and_lets_finish_what_runs(
    connection: Connection,
) -> None:
    schedule, due, ahead = await schedule_with_fires(connection)
    node = await join(connection)
    [running] = await claim(connection, node)
    [late] = await connection.fetch(
        "INSERT INTO pgcron.run (handler, origin, schedule_id) VALUES ('py:work', 'manual', $1) "
        "RETURNING id",
        schedule,
    )

    await connection.execute("SELECT pgcron.delete_schedule('job', 'ops')")

    ended = await history_row(connection, late["id"])
    assert ended is not None
    assert (ended["outcome"], ended["error"]) == ("cancelled", "schedule was deleted")
    assert await live_fires(connection) == await decided_fires(connection) == {due}
    assert await finish(connection, [running]) == [running["id"]]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.cursor") == 0
    assert ahead not in await live_fires(connection)


async def test_a_name_can_be_used_again_for_another_schedule(connection: Connection) -> None:
    first = await put_schedule(connection, "job")
    await connection.execute("DELETE FROM pgcron.schedule")
    second = await put_schedule(connection, "job")

    assert second != first
    assert [(row["schedule_id"], row["operation"]) for row in await versions(connection)] == [
        (first, "create"),
        (first, "delete"),
        (second, "create"),
    ]


async def test_every_version_says_who_wrote_it_and_through_which_door(
    connection: Connection,
) -> None:
    put = "SELECT pgcron.put_schedule('job', $1, 'py:work', actor => $2, interface => $3)"
    await connection.execute(put, "@daily", "anna", "cli")
    await connection.execute(put, "@hourly", "shop", "code")
    await connection.execute(put, "@hourly", "shop", "code")
    await connection.execute("UPDATE pgcron.schedule SET priority = 3")
    await connection.execute("SELECT pgcron.pause_schedule('job', 'why', 'bert', 'ui')")
    await connection.execute("SELECT pgcron.delete_schedule('job')")

    written = [
        (row["version"], row["actor"], row["interface"], row["operation"])
        for row in await versions(connection)
    ]
    assert written == [
        (1, "anna", "cli", "create"),
        (2, "shop", "code", "edit"),
        (3, "postgres", "sql", "edit"),
        (4, "bert", "ui", "edit"),
        (5, "postgres", "sql", "delete"),
    ]


async def test_a_put_that_changes_nothing_makes_no_version(connection: Connection) -> None:
    put = "SELECT pgcron.put_schedule('job', '@daily', 'py:work')"
    first = await connection.fetchval(put)
    before = await connection.fetchrow("SELECT * FROM pgcron.schedule")

    assert await connection.fetchval(put) == first
    assert await connection.fetchrow("SELECT * FROM pgcron.schedule") == before


async def test_a_schedule_s_identity_is_not_edited(connection: Connection) -> None:
    await put_schedule(connection)
    before = await connection.fetchrow("SELECT id, uuid, created_at FROM pgcron.schedule")

    await connection.execute(
        "UPDATE pgcron.schedule SET uuid = gen_random_uuid(), created_at = now(), priority = 1"
    )

    assert await connection.fetchrow("SELECT id, uuid, created_at FROM pgcron.schedule") == before


async def test_two_enqueuers_of_one_key_make_one_run(
    connection: Connection, another: Connect
) -> None:
    enqueue = "SELECT pgcron.enqueue('py:work', idempotency_key => 'order 7')"
    first, second = await another(), await another()
    async with first.transaction():
        made = await first.fetchval(enqueue)
        waiting = asyncio.create_task(second.fetchval(enqueue))
        await waits_for_lock(connection, second)
    assert await waiting == made
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 1


async def test_a_key_of_a_transaction_that_was_rolled_back_is_free(
    connection: Connection, another: Connect
) -> None:
    enqueue = "SELECT pgcron.enqueue('py:work', idempotency_key => 'order 7')"
    first, second = await another(), await another()
    transaction = first.transaction()
    await transaction.start()
    lost = await first.fetchval(enqueue)
    waiting = asyncio.create_task(second.fetchval(enqueue))
    await waits_for_lock(connection, second)
    await transaction.rollback()

    made = await waiting
    assert made != lost
    assert [row["id"] for row in await connection.fetch("SELECT id FROM pgcron.run")] == [made]


async def test_a_key_lives_beyond_its_run_and_ends_with_its_lifetime(
    connection: Connection,
) -> None:
    enqueue = "SELECT pgcron.enqueue('py:work', idempotency_key => 'k', key_lifetime => '1 minute')"
    made = await connection.fetchval(enqueue)
    await finish(connection, await claim(connection, await join(connection)))
    assert await connection.fetchval(enqueue) == made

    await connection.execute("UPDATE pgcron.idempotency SET expires_at = now()")

    assert await connection.fetchval(enqueue) != made
    await connection.execute("UPDATE pgcron.idempotency SET expires_at = now()")
    await call(connection, "forget_keys", at_most=10)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0


async def test_an_enqueue_that_is_rolled_back_leaves_nothing(
    connection: Connection, another: Connect
) -> None:
    caller = await another()
    transaction = caller.transaction()
    await transaction.start()
    await caller.execute("SELECT pgcron.enqueue('py:work', idempotency_key => 'k')")
    await transaction.rollback()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0


async def test_runs_are_made_by_copy_and_by_one_insert_of_many_rows(connection: Connection) -> None:
    records: list[Any] = [("py:work", f'{{"n": {n}}}', 3) for n in range(100)]
    await connection.copy_records_to_table(
        "run", schema_name="pgcron", columns=["handler", "args", "priority"], records=records
    )
    await connection.execute(
        "INSERT INTO pgcron.run (handler, priority) VALUES ('py:work', 4), ('py:work', 4)"
    )

    claimed = await claim(connection, await join(connection), 200)

    assert len(claimed) == 102
    assert len(await fail(connection, claimed)) == 102
