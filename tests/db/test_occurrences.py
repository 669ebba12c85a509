"""One fire to come, skipped, moved, given other args and restored: a run already or far ahead."""

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
    finish,
    history_row,
    join,
    materialize,
    minutes,
    put_schedule,
    waits_for_lock,
)
from tests.db.test_refusals import is_explained, refusal
from tests.product.client import is_fire
from tests.product.db import Link
from tests.product.engine import one_fire

SKIP = "SELECT pgcron.skip_occurrence('job', $1, 'a fair', 'anna')"
MOVE = "SELECT pgcron.move_occurrence('job', $1, $2, 'a fair', 'anna')"
EDIT = "SELECT pgcron.edit_occurrence('job', $1, '{\"day\": 2}', 'a fair', 'anna')"
RESTORE = "SELECT pgcron.restore_occurrence('job', $1, 'bert')"


async def next_minute(connection: Connection, ahead: float = 3) -> datetime:
    """An instant that ``* * * * *`` names."""
    moment = await database_now(connection) + minutes(ahead)
    return moment.replace(second=0, microsecond=0)


async def decide(connection: Connection, schedule: int, *fires: datetime) -> None:
    """What a node does when it comes to these fires."""
    cursor = await cursor_of(connection, schedule)
    assert (await materialize(connection, cursor, fires))[0] == 1


async def why(connection: Connection, fire: datetime) -> Row:
    reported = await connection.fetchrow("SELECT * FROM pgcron.why('job', $1)", fire)
    assert reported is not None
    return reported


async def live(connection: Connection) -> list[tuple[datetime, datetime, str]]:
    rows = await connection.fetch("SELECT * FROM pgcron.run ORDER BY scheduled_for")
    return [(row["scheduled_for"], row["due_at"], row["args"]) for row in rows]


@pytest.mark.parametrize("is_made", [True, False])
async def test_a_fire_is_skipped(connection: Connection, is_made: bool) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    other = fire + minutes(1)
    if is_made:
        await decide(connection, schedule, fire, other)
    await connection.execute(SKIP, fire)
    reported = await why(connection, fire)
    assert (reported["decision"], reported["actor"], reported["note"]) == (
        "not yet",
        "anna",
        "a fair",
    )
    await decide(connection, schedule, fire, other)

    assert [row[0] for row in await live(connection)] == [other]
    reported = await why(connection, fire)
    assert (reported["decision"], reported["reason"]) == ("skipped", "skipped by anna: a fair")
    # An edit of the schedule is no reason to run it.
    await connection.execute("UPDATE pgcron.schedule SET priority = 3")
    await decide(connection, schedule, fire, other)
    assert [row[0] for row in await live(connection)] == [other]


@pytest.mark.parametrize("is_made", [True, False])
async def test_a_fire_is_moved_and_stays_the_fire_of_its_time(
    connection: Connection, is_made: bool
) -> None:
    schedule = await put_schedule(connection, start_deadline=timedelta(minutes=5))
    fire = await next_minute(connection)
    if is_made:
        await decide(connection, schedule, fire)
    await connection.execute(MOVE, fire, fire + minutes(30))
    await decide(connection, schedule, fire)

    assert await live(connection) == [(fire, fire + minutes(30), "{}")]
    expires = await connection.fetchval("SELECT expire_at FROM pgcron.run")
    assert expires == fire + minutes(35)
    reported = await why(connection, fire)
    assert (reported["decision"], reported["code"], reported["due_at"]) == (
        "run",
        "moved",
        fire + minutes(30),
    )
    assert (reported["actor"], reported["note"]) == ("anna", "a fair")
    words = f"moved to {fire + minutes(30):%Y-%m-%dT%H:%M:%SZ} by anna: a fair"
    assert await connection.fetchval("SELECT reason FROM pgcron.occurrence") == words


@pytest.mark.parametrize("is_made", [True, False])
async def test_a_fire_gets_other_args_also_when_it_is_moved(
    connection: Connection, is_made: bool
) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    if is_made:
        await decide(connection, schedule, fire)
    await connection.execute(EDIT, fire)
    await connection.execute(MOVE, fire, fire + minutes(30))
    await connection.execute(EDIT, fire)
    await decide(connection, schedule, fire)

    assert await live(connection) == [(fire, fire + minutes(30), '{"day": 2}')]


@pytest.mark.parametrize("change", [SKIP, EDIT, MOVE])
@pytest.mark.parametrize("is_made", [True, False])
async def test_a_changed_fire_is_restored(
    connection: Connection, is_made: bool, change: str
) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    await connection.execute(change, fire, *([fire + minutes(30)] if change == MOVE else []))
    if is_made:
        await decide(connection, schedule, fire)
    await connection.execute(RESTORE, fire)
    await decide(connection, schedule, fire)

    assert await live(connection) == [(fire, fire, "{}")]
    assert await connection.fetchval("SELECT reason FROM pgcron.occurrence") is None
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(RESTORE, fire)
    assert refused.value.sqlstate == "PC010"


async def refused(connection: Connection, statement: str, *values: Any) -> tuple[str, str]:
    error = await refusal(connection, statement, *values)
    assert is_explained(error)
    return error.sqlstate, str(error)


async def test_a_fire_that_has_begun_or_is_over_is_not_changed(connection: Connection) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    now = await database_now(connection)
    fires = [now - minutes(3), now - minutes(2), now - minutes(1)]
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", now - minutes(9))
    await decide(connection, schedule, *fires)
    node = await join(connection)
    [done, running] = await claim(connection, node, 2)
    await finish(connection, [done])

    code, words = await refused(connection, SKIP, fires[0])
    assert (code, f"has ended as run {done['id']}" in words) == ("PC011", True)
    code, words = await refused(connection, EDIT, fires[1])
    assert (code, f"is executed as run {running['id']}" in words) == ("PC011", True)
    code, words = await refused(connection, MOVE, fires[2], now + minutes(9))
    assert (code, "is due as run" in words) == ("PC011", True)
    assert (await refused(connection, SKIP, now - minutes(99)))[0] == "PC011"
    assert await history_row(connection, done["id"]) is not None
    assert await connection.fetchval("SELECT count(*) FROM pgcron.occurrence_override") == 0


async def test_what_is_no_fire_or_makes_no_sense_is_refused(connection: Connection) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    await decide(connection, schedule, fire)

    assert (await refused(connection, SKIP, fire - timedelta(seconds=7)))[0] == "PC001"
    assert (await refused(connection, MOVE, fire, fire))[0] == "PC001"
    assert (await refused(connection, MOVE, fire, fire - minutes(99)))[0] == "PC001"
    args = "SELECT pgcron.edit_occurrence('job', $1, $2)"
    assert (await refused(connection, args, fire, None))[0] == "PC001"
    assert (await refused(connection, args, fire, "[1]"))[0] == "PC001"
    await connection.execute(SKIP, fire)
    assert (await refused(connection, MOVE, fire, fire + minutes(1)))[0] == "PC011"
    nobody = "SELECT pgcron.skip_occurrence('nobody', $1)"
    assert (await refused(connection, nobody, fire))[0] == "PC010"


@pytest.mark.parametrize("change", [SKIP, EDIT, RESTORE])
async def test_a_change_and_a_claim_at_once_are_one_after_the_other(
    connection: Connection, another: Connect, change: str
) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    fire = await database_now(connection) - minutes(1)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", fire - minutes(9))
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, args)"
        " VALUES ($1, $2, 'edit', '{\"day\": 1}')",
        schedule,
        fire,
    )
    await decide(connection, schedule, fire)
    node = await join(connection)
    claimer, person = await another(), await another()
    async with claimer.transaction():
        [run] = await claim(claimer, node)
        changing = asyncio.create_task(person.execute(change, fire))
        await waits_for_lock(connection, person)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await changing

    assert refused.value.sqlstate == "PC011"
    assert await finish(connection, [run]) == [run["id"]]


async def test_a_change_waits_for_the_materializer_and_finds_its_run(
    connection: Connection, another: Connect
) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    planner, person = await another(), await another()
    async with planner.transaction():
        await decide(planner, schedule, fire)
        skipping = asyncio.create_task(person.execute(SKIP, fire))
        await waits_for_lock(connection, person)
    await skipping
    await decide(connection, schedule, fire)

    assert await live(connection) == []
    assert (await why(connection, fire))["decision"] == "skipped"


async def test_a_change_is_seen_by_who_decides_with_a_snapshot_from_before_it(
    connection: Connection, another: Connect
) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    planner = await another()
    transaction = planner.transaction(isolation="repeatable_read")
    await transaction.start()
    await cursor_of(planner, schedule)
    await connection.execute(SKIP, fire)
    with pytest.raises(asyncpg.SerializationError):  # READ COMMITTED: it decides nothing
        await decide(planner, schedule, fire)
    await transaction.rollback()
    await decide(connection, schedule, fire)

    assert await live(connection) == []
    assert (await why(connection, fire))["decision"] == "skipped"


@pytest.mark.parametrize(
    "options", ["SELECT pgcron.rename_schedule('job', 'other')", "DELETE FROM pgcron.schedule"]
)
async def test_a_change_does_not_wait_in_a_ring_with_an_edit(
    connection: Connection, another: Connect, options: str
) -> None:
    schedule, fire = await put_schedule(connection), await next_minute(connection)
    await decide(connection, schedule, fire)
    editor, person = await another(), await another()
    async with editor.transaction():
        await editor.execute(options)
        skipping = asyncio.create_task(person.execute(SKIP, fire))
        await waits_for_lock(connection, person)
    answers = await asyncio.gather(skipping, return_exceptions=True)

    if options.startswith("DELETE"):
        assert getattr(answers[0], "sqlstate", None) == "PC010"
    else:
        assert answers[0] == "SELECT 1"


async def test_a_fire_moved_ahead_of_the_cursor_is_made_in_time(
    connection: Connection, database: str
) -> None:
    schedule = await put_schedule(connection, spec="* * * * *")
    fire, to = await next_minute(connection, 90), await next_minute(connection, 1)
    await decide(connection, schedule)
    await connection.execute(MOVE, fire, to + minutes(1))
    await connection.execute(MOVE, fire + timedelta(seconds=7), to)  # no fire: SQL can't know
    before = await cursor_of(connection, schedule)
    link = Link(database)
    try:
        found = await link.rows("early_fires", horizon=600.0, at_most=9, aside=[])
        [early] = [row for row in found if is_fire(row, row["fire_at"])]
        assert early["fire_at"] == fire
        columns = one_fire(early, fire, "* * * * *")
        assert (await link.rows("materialize", **columns))[0]["runs"] == 1
        found = await link.rows("early_fires", horizon=600.0, at_most=9, aside=[])
        assert not any(is_fire(row, row["fire_at"]) for row in found)
    finally:
        link.drop()

    assert [row[:2] for row in await live(connection)] == [(fire, to + minutes(1))]
    after = await cursor_of(connection, schedule)
    assert (after["watermark"], after["next_fire"]) == (before["watermark"], before["next_fire"])
    # The cursor comes to it later, and finds it decided.
    await decide(connection, schedule, fire - minutes(1), fire)
    assert len(await live(connection)) == 2


async def test_a_fire_that_is_made_ahead_is_no_duty_any_more(connection: Connection) -> None:
    schedule = await put_schedule(connection, spec="0 0 * * *")
    await decide(connection, schedule)
    fire = (await next_minute(connection, 9 * 24 * 60)).replace(hour=0, minute=0)
    await connection.execute(MOVE, fire, await next_minute(connection, 1))

    [row] = await call(connection, "control_duties", horizon=600.0, tzdata=None)
    assert row["duties"] == ["early_fires"]
    [early] = await call(connection, "early_fires", horizon=600.0, at_most=9, aside=[])
    await call(connection, "materialize", **one_fire(early, fire, "0 0 * * *"))
    [row] = await call(connection, "control_duties", horizon=600.0, tzdata=None)
    assert row["duties"] == []


async def test_a_fire_runs_no_earlier_than_the_ledger_has_room_for(connection: Connection) -> None:
    await put_schedule(connection)
    fire, days = await next_minute(connection, 99 * 24 * 60), 24 * 60

    code, words = await refused(connection, MOVE, fire, fire - minutes(40 * days))
    assert (code, "can't run as early as" in words) == ("PC001", True)
    await connection.execute(MOVE, fire, fire - minutes(39 * days))


async def test_old_changes_are_forgotten_with_the_ledger(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action)"
        " SELECT $1, now() - days * interval '1 day', 'skip' FROM unnest('{1,9999}'::int[]) days",
        schedule,
    )
    await call(connection, "forget_overrides", at_most=100)

    assert await connection.fetchval("SELECT count(*) FROM pgcron.occurrence_override") == 1


async def test_an_old_change_that_somebody_has_locked_keeps_no_other(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action)"
        " SELECT $1, now() - days * interval '1 day', 'skip' FROM unnest(ARRAY[8888, 9999]) days",
        schedule,
    )
    await connection.execute(
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)"
        " SELECT $1, day, day, 'late' FROM unnest('{2000-01-01,2000-01-02}'::date[]) day",
        schedule,
    )
    locker = await another()
    async with locker.transaction():
        for table, column in (("occurrence_override", "fire_at"), ("missed", "first_at")):
            await locker.execute(f"SELECT FROM pgcron.{table} ORDER BY {column} LIMIT 1 FOR UPDATE")
        await connection.execute("SET lock_timeout = '10s'")
        assert len(await call(connection, "forget_overrides", at_most=100)) == 1
        assert len(await call(connection, "forget_missed", at_most=100)) == 1
    assert len(await call(connection, "forget_overrides", at_most=100)) == 1
    assert len(await call(connection, "forget_missed", at_most=100)) == 1
