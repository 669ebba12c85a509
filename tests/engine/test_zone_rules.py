"""Updates of time zones, with packages as an update installs them and a process for each node."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgcron_ha.client.verifying import prove
from tests.db.control import Connection, cursor_of, database_now, put_schedule
from tests.engine.test_materializer import fires, set_back
from tests.engine.zone_packages import ZONE, install, materialize, start
from tests.sessions import own_session
from tests.waiting import until

HOUR = timedelta(hours=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def daily(instant: datetime, offset: int) -> str:
    """Fires at this instant where clocks are so many hours ahead of UTC."""
    wall = instant + offset * HOUR
    return f"{wall.minute} {wall.hour} * * *"


@pytest.fixture
async def now(connection: Connection) -> datetime:
    """To the minute, so that walls are those of cron."""
    return (await database_now(connection)).replace(second=0, microsecond=0)


async def generations(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch(
        "SELECT s.name, c.generation FROM pgcron.schedule s"
        " JOIN pgcron.cursor c ON c.schedule_id = s.id"
    )
    return {row["name"]: row["generation"] for row in rows}


async def is_proved(connection: Connection) -> bool:
    proof = await prove(connection, await database_now(connection) - timedelta(days=1))
    assert proof.breaks == []
    return proof.schedules > 0


async def test_runs_ahead_move_with_the_clocks(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    wanted = {"timezone": ZONE}
    before = await put_schedule(
        connection, "before", spec=daily(now + timedelta(minutes=30), 1), **wanted
    )
    after = await put_schedule(
        connection, "after", spec=daily(change + timedelta(minutes=90), 1), **wanted
    )
    yearly = await put_schedule(
        connection, "far", spec=daily(now + timedelta(days=40), 1), **wanted
    )
    far = now + timedelta(days=40)
    wall = far + HOUR
    await connection.execute(
        "UPDATE pgcron.schedule SET spec = $2 WHERE id = $1",
        yearly,
        f"{wall.minute} {wall.hour} {wall.day} {wall.month} *",
    )
    elsewhere = await put_schedule(connection, "elsewhere", spec="0 * * * *")
    await materialize(database, old)
    assert await fires(connection, after) == [change + timedelta(minutes=90)]
    assert (await cursor_of(connection, yearly))["next_fire"] == far
    known = await generations(connection)
    unmoved = await fires(connection, elsewhere)

    told = await materialize(database, new)

    assert f"other clocks in {ZONE}" in told
    assert await fires(connection, before) == [now + timedelta(minutes=30)]
    assert await fires(connection, after) == [change + timedelta(minutes=30)]
    assert (await cursor_of(connection, yearly))["next_fire"] == far - HOUR
    assert await fires(connection, elsewhere) == unmoved
    assert (await generations(connection))["elsewhere"] == known["elsewhere"]
    assert await connection.fetchval("SELECT tzdata FROM pgcron.cluster") == "2099b"
    assert await is_proved(connection)


async def test_a_node_with_older_zones_undoes_nothing_and_decides_by_the_newer_ones(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    moved = change + timedelta(minutes=90)
    schedule = await put_schedule(connection, spec=daily(moved, 1), timezone=ZONE)
    await asyncio.gather(materialize(database, old), materialize(database, new))
    await materialize(database, new)
    known = await generations(connection)
    assert await fires(connection, schedule) == [moved - HOUR]

    told = await materialize(database, old)
    later = await put_schedule(connection, "later", spec=daily(moved, 1), timezone=ZONE)
    told_again = await materialize(database, old)
    await materialize(database, new)

    for each in (told, told_again):
        assert "installed here is 2099a, the cluster computes with 2099b" in each
    assert await fires(connection, schedule) == [moved - HOUR]
    assert await fires(connection, later) == [moved - HOUR]
    assert (await generations(connection))["job"] == known["job"]
    assert await connection.fetchval("SELECT tzdata FROM pgcron.cluster") == "2099b"


async def test_clocks_that_were_put_forward_unnoticed_lose_no_fire(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (now - timedelta(days=10), 2)])
    coming = now + timedelta(minutes=30)
    daily_one = await put_schedule(connection, "daily", spec=daily(coming, 1), timezone=ZONE)
    often = await put_schedule(connection, "often", spec="*/10 * * * *", timezone=ZONE)
    for schedule in (daily_one, often):
        await set_back(connection, schedule, 4 * 3600)
    await materialize(database, old)
    assert await fires(connection, daily_one) == [coming]
    seen = await fires(connection, often)

    await materialize(database, new)

    assert await fires(connection, daily_one) == [coming - HOUR]
    due = await connection.fetchval(
        "SELECT due_at FROM pgcron.run WHERE schedule_id = $1", daily_one
    )
    assert due >= now
    assert await fires(connection, often) == seen
    assert await is_proved(connection)


async def test_clocks_that_were_put_back_unnoticed_run_nothing_twice(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 2)])
    new = install(tmp_path, "2099b", [(LONG_AGO, 2), (now - timedelta(days=10), 1)])
    past = now - timedelta(minutes=30)
    daily_one = await put_schedule(connection, "daily", spec=daily(past, 2), timezone=ZONE)
    often = await put_schedule(connection, "often", spec="*/10 * * * *", timezone=ZONE)
    for schedule in (daily_one, often):
        await set_back(connection, schedule, 4 * 3600)
    await materialize(database, old)
    assert await fires(connection, daily_one) == [past]
    seen = await fires(connection, often)

    await materialize(database, new)

    assert await fires(connection, daily_one) == [past]
    assert await fires(connection, often) == seen
    why = await connection.fetchrow("SELECT * FROM pgcron.why('daily', $1)", past + HOUR)
    assert why is not None
    assert (why["decision"], why["code"]) == ("skipped", "clocks_changed")
    assert why["actor"] == "pgcron_ha"
    assert f"the clocks of {ZONE} changed with the time zones of 2099b" in why["note"]
    assert await is_proved(connection)


@pytest.mark.long
async def test_many_schedules_follow_in_batches_that_any_node_goes_on_with(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    fire = change + timedelta(minutes=90)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, timezone, handler)"
        " SELECT 's' || n, $1, $2, 'py:work' FROM generate_series(1, 250) n",
        daily(fire, 1),
        ZONE,
    )
    await materialize(database, old)
    known = await generations(connection)
    process = await start(database, new)

    async def has_begun() -> bool:
        return bool(await connection.fetchval("SELECT max(swept_to) > 0 FROM pgcron.zone_change"))

    await until("the first batch", has_begun, deadline=60)
    process.kill()
    await process.communicate()
    await asyncio.gather(materialize(database, new), materialize(database, old))
    await materialize(database, new)

    assert await generations(connection) == {name: each + 1 for name, each in known.items()}
    counts = await connection.fetch(
        "SELECT scheduled_for, count(*) FROM pgcron.run GROUP BY scheduled_for"
    )
    assert {row["scheduled_for"]: row["count"] for row in counts} == {fire - HOUR: 250}
    done = await connection.fetchrow("SELECT remade, done_at FROM pgcron.zone_change")
    assert done is not None
    assert done["remade"] == 250
    assert done["done_at"] is not None
    assert await is_proved(connection)


async def test_a_schedule_that_somebody_edits_holds_up_no_other(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    fire = change + timedelta(minutes=90)
    edited = await put_schedule(connection, "edited", spec=daily(fire, 1), timezone=ZONE)
    other = await put_schedule(connection, "other", spec=daily(fire, 1), timezone=ZONE)
    await materialize(database, old)
    editor: Connection = await own_session(database)
    try:
        editing = editor.transaction()
        await editing.start()
        await editor.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}' WHERE id = $1", edited)
        await materialize(database, new)
    finally:
        seen = await fires(connection, edited), await fires(connection, other)
        await editor.close()

    assert seen == ([fire], [fire - HOUR])
    assert await connection.fetchval("SELECT postponed FROM pgcron.zone_change") == [edited]

    await materialize(database, new)
    await materialize(database, new)

    assert await fires(connection, edited) == [fire - HOUR]
    assert await connection.fetchval("SELECT done_at FROM pgcron.zone_change") is not None
    assert await is_proved(connection)


async def test_a_schedule_whose_rows_break_a_rule_holds_up_no_other(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    moved = change + timedelta(minutes=90)
    bad = await put_schedule(connection, "bad", spec=daily(moved, 1), timezone=ZONE)
    good = await put_schedule(connection, "good", spec=daily(moved, 1), timezone=ZONE)
    await materialize(database, old)
    await connection.execute(
        f"ALTER TABLE pgcron.cursor ADD CONSTRAINT broken CHECK (schedule_id <> {bad}) NOT VALID"
    )

    await materialize(database, new)

    assert await fires(connection, good) == [moved - HOUR]
    assert not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.zone_change z WHERE z.done_at IS NULL)"
    )
