"""Updates of tzdata, with packages as an update installs them and a process for each node."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.db.control import Connection, call, cursor_of, database_now, join, put_schedule
from tests.engine.test_materializer import fires, set_back
from tests.engine.zone_packages import ZONE, install, materialize, start, verify
from tests.product.client import prove
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
    far = now + timedelta(days=40)
    wall = far + HOUR
    yearly = await put_schedule(
        connection, "far", spec=f"{wall.minute} {wall.hour} {wall.day} {wall.month} *", **wanted
    )
    often = await put_schedule(connection, "often", spec="*/10 * * * *", **wanted)
    await set_back(connection, often, 2 * 3600)
    elsewhere = await put_schedule(connection, "elsewhere", spec="0 * * * *")
    await materialize(database, old)
    assert await fires(connection, after) == [change + timedelta(minutes=90)]
    assert (await cursor_of(connection, yearly))["next_fire"] == far
    known = await generations(connection)
    unmoved = await fires(connection, often), await fires(connection, elsewhere)
    assert unmoved[0][0] <= now

    reported = await materialize(database, new)

    assert "schedules follow tzdata 2099b instead of 2099a" in reported
    assert await fires(connection, before) == [now + timedelta(minutes=30)]
    assert await fires(connection, after) == [change + timedelta(minutes=30)]
    assert (await cursor_of(connection, yearly))["next_fire"] == far - HOUR
    assert (await fires(connection, often), await fires(connection, elsewhere)) == unmoved
    assert (await generations(connection))["elsewhere"] == known["elsewhere"]
    assert "5 schedules" in await verify(database, new)
    proof = await prove(connection, now)
    assert (proof.schedules, proof.breaks, proof.other_tzdata) == (1, [], "2099b")


async def test_a_node_with_an_older_tzdata_materializes_nothing_while_a_newer_one_lives(
    connection: Connection, database: str, tmp_path: Path, now: datetime
) -> None:
    old = install(tmp_path, "2099a", [(LONG_AGO, 1)])
    change = now + HOUR
    new = install(tmp_path, "2099b", [(LONG_AGO, 1), (change, 2)])
    fire = change + timedelta(minutes=90)
    schedule = await put_schedule(connection, spec=daily(fire, 1), timezone=ZONE)
    await materialize(database, old)
    newer = await join(connection, tzdata="2099b")
    await asyncio.gather(materialize(database, old), materialize(database, new))
    await materialize(database, new)
    assert await fires(connection, schedule) == [fire - HOUR]

    later = await put_schedule(connection, "later", spec=daily(fire, 1), timezone=ZONE)
    reported = await materialize(database, old)

    assert "tzdata 2099a is installed here, and the cluster has 2099b" in reported
    assert await fires(connection, schedule) == [fire - HOUR]
    assert await fires(connection, later) == []

    await call(connection, "leave", incarnation=newer.incarnation, reason="stopped in order")
    reported = await materialize(database, old)

    assert "schedules follow tzdata 2099a instead of 2099b" in reported
    assert await fires(connection, schedule) == [fire]
    assert await fires(connection, later) == [fire]


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
        " SELECT 's' || n, $1, $2, 'py:work' FROM generate_series(1, 450) n",
        daily(fire, 1),
        ZONE,
    )
    await materialize(database, old)
    known = await generations(connection)
    process = await start(database, new)

    async def has_begun() -> bool:
        return bool(
            await connection.fetchval(
                "SELECT replan_after IS NOT NULL OR EXISTS (SELECT FROM pgcron.outdated_plan)"
                " FROM pgcron.cluster"
            )
        )

    await until("schedules are to follow", has_begun)
    process.kill()
    await process.communicate()
    await asyncio.gather(materialize(database, new), materialize(database, old))
    await materialize(database, new)

    assert await generations(connection) == {name: each + 2 for name, each in known.items()}
    counts = await connection.fetch(
        "SELECT scheduled_for, count(*) FROM pgcron.run GROUP BY scheduled_for"
    )
    assert {row["scheduled_for"]: row["count"] for row in counts} == {fire - HOUR: 450}
    assert not await has_begun()
    assert "450 schedules" in await verify(database, new)
