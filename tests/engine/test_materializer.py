from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgcron_ha.errors import UnknownZone
from tests.db.control import Connection, cursor_of, database_now, put_schedule
from tests.engine.conftest import MakeLink
from tests.product.db import Link
from tests.product.engine import Materializer, decide
from tests.product.spec import DstPolicy, parse_spec
from tests.product.telemetry import Event, ScheduleIsInvalid

HORIZON = 600.0


@pytest.fixture
def materializer(link: Link) -> Materializer:
    return Materializer(link, HORIZON)


async def fires(connection: Connection, schedule: int) -> list[datetime]:
    rows = await connection.fetch(
        "SELECT scheduled_for FROM pgcron.run WHERE schedule_id = $1 ORDER BY 1", schedule
    )
    return [row["scheduled_for"] for row in rows]


async def set_back(connection: Connection, schedule: int, seconds: float) -> None:
    """As if nobody had decided anything for so long."""
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - $2 * interval '1 second',"
        " since = now() - $2 * interval '1 second',"
        " next_fire = now() - $2 * interval '1 second' WHERE schedule_id = $1",
        schedule,
        seconds,
    )


async def every_five_minutes(connection: Connection) -> str:
    """A spec that fired two minutes ago and fires in two more: it is not due during a test."""
    now = await database_now(connection)
    return f"{(now.minute + 3) % 5}-59/5 * * * *"


async def test_fires_up_to_the_horizon_become_runs(
    materializer: Materializer, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="* * * * *")
    before = await database_now(connection)

    assert await materializer.run_once() is None

    after = await database_now(connection)
    made = await fires(connection, schedule)
    expected = parse_spec("* * * * *", "UTC", DstPolicy.VIXIE).between(
        before, before + timedelta(seconds=HORIZON), 100
    )
    assert made[: len(expected)] == expected
    assert made[-1] <= after + timedelta(seconds=HORIZON)
    assert (await cursor_of(connection, schedule))["status"] == "valid"


async def test_nothing_is_decided_again_until_half_of_the_horizon_is_used_up(
    materializer: Materializer, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="* * * * * *")
    await materializer.run_once()
    made = await fires(connection, schedule)

    await materializer.run_once()
    assert await fires(connection, schedule) == made

    await connection.execute("DELETE FROM pgcron.run; DELETE FROM pgcron.occurrence")
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() + interval '290 seconds',"
        " next_fire = now() + interval '291 seconds' WHERE schedule_id = $1",
        schedule,
    )
    await materializer.run_once()

    assert len(await fires(connection, schedule)) in (309, 310, 311)


async def test_a_duty_that_fails_holds_up_no_fire_of_the_others(
    materializer: Materializer, connection: Connection
) -> None:
    yearly = await put_schedule(connection, "yearly", spec="0 0 1 1 *")
    await materializer.run_once()
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, due_at)"
        " VALUES ($1, date_trunc('year', now(), 'UTC') + interval '9 years', 'move', now())",
        yearly,
    )
    schedule = await put_schedule(connection, spec="* * * * *")

    await materializer.run_once()
    [entry] = materializer.aside.entries()
    assert entry.what == "schedule 'yearly', early fires"
    assert "no partition" in entry.error

    assert await fires(connection, schedule) != []


async def test_after_an_outage_the_newest_fire_runs_and_the_others_are_missed(
    materializer: Materializer, connection: Connection
) -> None:
    spec = await every_five_minutes(connection)
    schedule = await put_schedule(connection, spec=spec, catchup_window=timedelta(hours=2))
    await set_back(connection, schedule, 3600)

    await materializer.run_once()

    now = await database_now(connection)
    late = [fire for fire in await fires(connection, schedule) if fire <= now]
    assert len(late) == 1
    assert now - late[0] < timedelta(minutes=6)
    missed = await connection.fetch("SELECT * FROM pgcron.missed")
    assert [row["reason"] for row in missed] == ["catchup_latest"]
    assert sum(row["fires"] for row in missed) == 11
    assert missed[0]["last_at"] < late[0]


@pytest.mark.parametrize(("catchup", "runs"), [("all", 12), ("latest 5", 5)])
async def test_with_other_catch_up_policies_several_late_fires_run(
    materializer: Materializer, connection: Connection, catchup: str, runs: int
) -> None:
    schedule = await put_schedule(
        connection,
        spec=await every_five_minutes(connection),
        catchup=catchup,
        overlap="allow",
        catchup_window=timedelta(hours=1),
    )
    await set_back(connection, schedule, 7200)

    await materializer.run_once()

    now = await database_now(connection)
    late = [fire for fire in await fires(connection, schedule) if fire <= now]
    assert len(late) == runs
    missed = await connection.fetch("SELECT * FROM pgcron.missed ORDER BY first_at")
    assert len(late) + sum(row["fires"] for row in missed) == 24
    assert all(row["last_at"] < late[0] for row in missed)
    assert missed[0]["reason"] == "catchup_window"


async def test_with_catch_up_none_an_outage_runs_nothing_late(
    materializer: Materializer, connection: Connection
) -> None:
    spec = await every_five_minutes(connection)
    schedule = await put_schedule(connection, spec=spec, catchup="none")
    await set_back(connection, schedule, 3600)

    await materializer.run_once()

    now = await database_now(connection)
    assert [fire for fire in await fires(connection, schedule) if fire < now] == []
    assert await connection.fetchval("SELECT reason FROM pgcron.missed") == "catchup_none"


async def test_a_schedule_nobody_can_read_is_marked_and_the_others_go_on(
    materializer: Materializer, connection: Connection, events: list[Event]
) -> None:
    bad = await put_schedule(connection, "bad")
    good = await put_schedule(connection, "good")
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "UPDATE pgcron.schedule SET timezone = 'Mars/Olympus' WHERE id = $1", bad
    )

    await materializer.run_once()

    assert len(await fires(connection, good)) >= 9
    cursor = await cursor_of(connection, bad)
    assert cursor["status"] == "invalid"
    assert "Mars/Olympus" in cursor["error"]
    assert [e.schedule for e in events if isinstance(e, ScheduleIsInvalid)] == ["bad"]
    events.clear()
    assert await materializer.run_once() is None
    assert events == []


async def test_an_edit_that_could_not_be_finished_is_finished(
    materializer: Materializer, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="* * * * *")
    await materializer.run_once()
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute("UPDATE pgcron.schedule SET spec = '*/2 * * * *'")
    assert (await cursor_of(connection, schedule))["edit_is_pending"]

    await materializer.run_once()

    assert not (await cursor_of(connection, schedule))["edit_is_pending"]
    now = await database_now(connection)
    assert {fire.minute % 2 for fire in await fires(connection, schedule) if fire > now} == {0}


async def test_a_paused_schedule_has_no_fires(
    materializer: Materializer, connection: Connection
) -> None:
    schedule = await put_schedule(connection, enabled=False)

    await materializer.run_once()

    assert await fires(connection, schedule) == []


async def test_what_is_too_much_for_one_statement_takes_another_pass(
    link: Link, connection: Connection
) -> None:
    materializer = Materializer(link, 3600)
    schedule = await put_schedule(connection, spec="* * * * * *")

    assert await materializer.run_once() == 0
    assert len(await fires(connection, schedule)) == 1000
    while await materializer.run_once() == 0:
        pass

    made = await fires(connection, schedule)
    assert len(made) >= 1800
    assert made == [made[0] + timedelta(seconds=number) for number in range(len(made))]


async def test_ten_at_once_decide_each_fire_once(
    make_link: MakeLink, connection: Connection
) -> None:
    for number in range(60):
        await put_schedule(connection, f"job {number}", spec="every 30s")
    materializers = [Materializer(make_link(), HORIZON) for _ in range(10)]

    await asyncio.gather(*(each.run_once() for each in materializers))
    for each in materializers:
        await each.run_once()

    facts = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM pgcron.occurrence) AS decided,"
        " (SELECT count(DISTINCT (schedule_id, scheduled_for)) FROM pgcron.run) AS runs,"
        " (SELECT count(*) FROM pgcron.run) AS rows,"
        " (SELECT min(n) FROM (SELECT count(*) n FROM pgcron.run GROUP BY schedule_id) s) AS least"
    )
    assert facts is not None
    assert facts["decided"] == facts["runs"] == facts["rows"]
    assert facts["least"] >= 20


@pytest.mark.parametrize(
    "given", [{"spec": "at {soon}"}, {"max_runs": 1}, {"spec": "* * * * *\nuntil {soon}"}], ids=str
)
async def test_a_schedule_without_a_fire_to_come_is_done_when_its_last_run_is_over(
    materializer: Materializer, connection: Connection, given: dict[str, Any]
) -> None:
    soon = (await database_now(connection) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%MZ")
    columns = {
        key: value.format(soon=soon) if key == "spec" else value for key, value in given.items()
    }
    await put_schedule(connection, **columns)
    status = "SELECT status FROM pgcron.schedules"
    await materializer.run_once()
    assert await connection.fetchval(status) == "valid"

    await connection.execute(
        "SELECT pgcron.end_waiting_runs(array_agg(id), 'expired', 'it is over') FROM pgcron.run"
    )
    assert await connection.fetchval(status) == "done"

    await connection.execute(
        "UPDATE pgcron.schedule SET spec = 'every 30s', max_runs = NULL, priority = 4"
    )
    assert await connection.fetchval(status) == "unchecked"
    await materializer.run_once()
    assert await connection.fetchval(status) == "valid"


def test_a_decision_needs_no_database() -> None:
    now = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
    row = {
        "spec": "0 * * * *",
        "timezone": "UTC",
        "dst": "vixie",
        "calendars": None,
        "uuid": "00000000-0000-0000-0000-000000000001",
        "now": now,
        "watermark": now,
        "catchup": "latest",
        "catchup_window": timedelta(hours=1),
        **dict.fromkeys(("jitter", "max_runs")),
        "runs_made": 0,
    }

    decision, canonical = decide(row, 7200)

    assert decision.fires == [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (13, 14)]
    assert canonical == "0 * * * *"
    with pytest.raises(UnknownZone):
        decide({**row, "timezone": "Mars/Olympus"}, 7200)
