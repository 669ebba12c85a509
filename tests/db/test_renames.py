"""A schedule under another name is the same schedule."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    call,
    claim,
    cursor_of,
    database_now,
    finish,
    join,
    materialize,
    minutes,
    put_schedule,
    waits_for_lock,
)

RENAME = "SELECT pgcron.rename_schedule('job', 'work', 'anna', 'cli')"


async def test_what_waits_follows_the_name_and_what_was_keeps_it(connection: Connection) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    now = await database_now(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", now - minutes(9))
    fires = [now - minutes(3), now - minutes(2), now - minutes(1), now + minutes(1)]
    await materialize(connection, await cursor_of(connection, schedule), fires)
    node = await join(connection)
    done, running = await claim(connection, node, 2)
    await finish(connection, [done])
    before = await connection.fetchrow("SELECT id, uuid, created_at FROM pgcron.schedule")

    await connection.execute(RENAME)

    after = await connection.fetchrow("SELECT id, uuid, created_at, name FROM pgcron.schedule")
    assert tuple(after or ()) == (*(before or ()), "work")
    live = await connection.fetch("SELECT scheduled_for, schedule FROM pgcron.run ORDER BY 1")
    assert [tuple(row) for row in live] == list(
        zip(fires[1:], ["job", "work", "work"], strict=True)
    )
    await finish(connection, [running])
    assert (
        await connection.fetchval("SELECT array_agg(schedule) FROM pgcron.history") == ["job"] * 2
    )
    reported = await connection.fetchrow("SELECT * FROM pgcron.why('work', $1)", fires[0])
    assert reported is not None
    assert (reported["decision"], reported["outcome"]) == ("run", "succeeded")
    written = (
        "SELECT actor, interface, content ->> 'name' FROM pgcron.schedule_version WHERE version = 2"
    )
    assert tuple(await connection.fetchrow(written) or ()) == ("anna", "cli", "work")


async def test_a_plan_of_the_old_name_makes_no_run(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    planned = await cursor_of(connection, schedule)
    await connection.execute(RENAME)
    ahead = await database_now(connection) + minutes(1)

    assert await materialize(connection, planned, [ahead]) == (0, 0)
    assert await materialize(connection, await cursor_of(connection, schedule), [ahead]) == (1, 1)
    assert await connection.fetchval("SELECT schedule FROM pgcron.run") == "work"


async def test_fires_that_are_made_while_it_is_renamed_have_the_new_name(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection)
    planner, person = await another(), await another()
    ahead = await database_now(connection) + minutes(1)
    async with planner.transaction():
        assert await materialize(planner, await cursor_of(planner, schedule), [ahead]) == (1, 1)
        renaming = asyncio.create_task(person.execute(RENAME))
        await waits_for_lock(connection, person)
    await renaming

    assert await connection.fetchval("SELECT schedule FROM pgcron.run") == "work"


async def test_a_rename_under_another_isolation_level_is_finished_by_a_node(
    connection: Connection, another: Connect
) -> None:
    schedule = await put_schedule(connection)
    ahead = await database_now(connection) + minutes(1)
    await materialize(connection, await cursor_of(connection, schedule), [ahead])
    person = await another()
    async with person.transaction(isolation="repeatable_read"):
        await person.execute(RENAME)
    await call(connection, "apply_edit", schedule_id=schedule)

    await materialize(connection, await cursor_of(connection, schedule), [ahead])
    assert await connection.fetchval("SELECT schedule FROM pgcron.run") == "work"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("job", "other", "PC011"), ("nobody", "x", "PC010"), ("job", " ", "PC001")],
)
async def test_a_name_that_can_t_be_had_is_refused(
    connection: Connection, old: str, new: str, code: str
) -> None:
    await put_schedule(connection)
    await put_schedule(connection, "other")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute("SELECT pgcron.rename_schedule($1, $2)", old, new)

    assert refused.value.sqlstate == code


async def test_two_that_want_one_name_don_t_both_get_it(
    connection: Connection, another: Connect
) -> None:
    await put_schedule(connection)
    await put_schedule(connection, "other")
    first, second = await another(), await another()
    async with first.transaction():
        await first.execute(RENAME)
        late = asyncio.create_task(second.execute("SELECT pgcron.rename_schedule('other', 'work')"))
        await waits_for_lock(connection, second)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await late

    assert refused.value.sqlstate == "PC011"


async def test_its_own_name_is_no_change(connection: Connection) -> None:
    await put_schedule(connection)
    await connection.execute("SELECT pgcron.rename_schedule('job', 'job')")

    assert await connection.fetchval("SELECT version FROM pgcron.schedule") == 1
