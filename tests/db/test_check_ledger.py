"""Each rule of the ledger is broken by hand once, and seen."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.db.control import (
    Connection,
    Dropped,
    claim,
    cursor_of,
    database_now,
    finish,
    join,
    materialize,
    minutes,
    put_schedule,
)
from tests.product.client import prove
from tests.product.db import broken_rows, restore_schedule

# How each rule is broken, by plain SQL on what `a_history` makes.
BREAKS = {
    "a run is gone": "DELETE FROM pgcron.run",
    "a run is alive and over": (
        "UPDATE pgcron.occurrence SET run_id = (SELECT id FROM pgcron.run)"
        " WHERE run_id = (SELECT id FROM pgcron.history);"
        "UPDATE pgcron.history SET id = (SELECT id FROM pgcron.run)"
    ),
    "decision and outcome disagree": "UPDATE pgcron.history SET outcome = 'skipped'",
    "a fire that does not run has a live run": (
        "UPDATE pgcron.occurrence SET decision = 'skipped', reason = 'x'"
        " WHERE run_id = (SELECT id FROM pgcron.run)"
    ),
    "a run has no fire": (
        "DELETE FROM pgcron.occurrence WHERE run_id = (SELECT id FROM pgcron.run)"
    ),
    "a run that is over has no fire": (
        "DELETE FROM pgcron.occurrence WHERE run_id = (SELECT id FROM pgcron.history)"
    ),
    "a fire lies beyond what is decided": (
        "UPDATE pgcron.cursor SET watermark = now() - interval '11 minutes'"
    ),
    "ranges overlap": (
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)"
        " SELECT schedule_id, first_at + interval '1 minute', last_at, 'paused' FROM pgcron.missed"
    ),
    "a range lies beyond what is decided": (
        "UPDATE pgcron.missed SET last_at = now() + interval '1 day'"
    ),
    "the next fire is decided": "UPDATE pgcron.cursor SET next_fire = watermark",
    "a schedule has no cursor": "DELETE FROM pgcron.cursor",
    "the version is not kept": "DELETE FROM pgcron.schedule_version",
}


async def a_history(connection: Connection) -> int:
    """A schedule with a dropped range, a run that ended and one that is alive, in order."""
    schedule = await put_schedule(connection, overlap="allow")
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    now = await database_now(connection)
    cursor = await cursor_of(connection, schedule)
    dropped = Dropped(now - minutes(50), now - minutes(20), 31)
    await materialize(connection, cursor, [now - minutes(10)], dropped=[dropped])
    await finish(connection, await claim(connection, await join(connection)))
    cursor = await cursor_of(connection, schedule)
    await materialize(
        connection, cursor, [now - minutes(5)], watermark=now, next_fire=now + minutes(1)
    )
    return schedule


@pytest.mark.parametrize("rule", BREAKS)
async def test_a_broken_rule_is_found(connection: Connection, rule: str) -> None:
    schedule = await a_history(connection)
    other = await put_schedule(connection, "another")
    assert await broken_rows(connection) == []

    for statement in BREAKS[rule].split(";"):
        await connection.execute(statement)
    found = await broken_rows(connection)
    of_it = await broken_rows(connection, "job")
    of_another = await broken_rows(connection, "another")

    assert rule in {row["rule"] for row in found}
    assert {row["schedule_id"] for row in of_it} == {schedule}
    assert {row["schedule"] for row in of_it} <= {"job", None}
    assert {row["schedule_id"] for row in of_another} <= {other}
    later = await database_now(connection) + minutes(1)
    if rule in ("a run is gone", "decision and outcome disagree"):
        assert await broken_rows(connection, "job", since=later) == []
    assert len(await broken_rows(connection, at_most=1)) <= len(found)


async def test_the_two_fires_of_one_instant_are_found(connection: Connection) -> None:
    await a_history(connection)
    await connection.execute(
        "INSERT INTO pgcron.history (id, uuid, origin, schedule_id, scheduled_for, queue, priority,"
        " handler, args, delivery, outcome, attempt, due_at, created_at, created_by)"
        " SELECT id + 1000, gen_random_uuid(), origin, schedule_id, scheduled_for, queue, priority,"
        " handler, args, delivery, outcome, attempt, due_at, created_at, created_by"
        " FROM pgcron.history"
    )
    assert [row["rule"] for row in await broken_rows(connection)] == [
        "a run that is over has no fire"
    ]


async def fires_every_minute(connection: Connection) -> tuple[int, datetime]:
    """A schedule of every minute, an hour old; and the last full minute."""
    schedule = await put_schedule(connection, overlap="allow")
    now = (await database_now(connection)).replace(second=0, microsecond=0)
    began = now - minutes(60)
    await connection.execute("UPDATE pgcron.cursor SET since = $1, watermark = $1", began)
    await connection.execute("UPDATE pgcron.schedule_version SET since = $1", began)
    return schedule, now


async def rules(connection: Connection, now: datetime, **given: Any) -> list[tuple[str, datetime]]:
    proof = await prove(connection, now - timedelta(hours=3), **given)
    return [(row["rule"], row["fire_at"]) for row in proof.breaks]


async def test_what_the_spec_asks_for_is_compared_with_the_ledger(connection: Connection) -> None:
    schedule, now = await fires_every_minute(connection)
    kept = [now - minutes(n) for n in range(30, 0, -1)]
    dropped = Dropped(now - minutes(59), now - minutes(31), 29)
    cursor = await cursor_of(connection, schedule)
    await materialize(
        connection, cursor, kept, watermark=now - minutes(1), next_fire=now, dropped=[dropped]
    )
    assert await rules(connection, now) == []
    proof = await prove(connection, now - minutes(20), name="job")
    assert (proof.schedules, proof.instants, proof.is_cut) == (1, 19, False)
    assert (await prove(connection, now - timedelta(hours=3), instants=10)).is_cut

    gone, odd = kept[3], kept[5] + timedelta(seconds=7)
    await connection.execute("DELETE FROM pgcron.run WHERE scheduled_for = $1", gone)
    await connection.execute("DELETE FROM pgcron.occurrence WHERE fire_at = $1", gone)
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)"
        " VALUES ($1, $2, 'skipped', 'x')",
        schedule,
        odd,
    )
    await connection.execute("UPDATE pgcron.missed SET first_at = first_at + interval '1 minute'")
    assert await rules(connection, now) == [
        ("an instant has no answer", now - minutes(59)),
        ("an instant has no answer", gone),
        ("a fire is no instant of the schedule", odd),
    ]
    assert await rules(connection, now, name="job", instants=10) == [
        ("an instant has no answer", now - minutes(59))
    ]


async def test_each_version_answers_for_its_own_time(connection: Connection) -> None:
    schedule, now = await fires_every_minute(connection)
    kept = [now - minutes(n) for n in range(59, 0, -1)]
    cursor = await cursor_of(connection, schedule)
    await materialize(connection, cursor, kept, watermark=now - minutes(1), next_fire=now)

    await connection.execute("UPDATE pgcron.schedule SET spec = '*/2 * * * * *'")
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")
    await connection.execute("UPDATE pgcron.schedule SET enabled = true, timezone = 'Asia/Tokyo'")
    await restore_schedule(connection, "job", 1)
    cursor = await cursor_of(connection, schedule)
    after = cursor["watermark"].replace(second=0, microsecond=0) + minutes(1)
    await materialize(connection, cursor, [after], next_fire=after + minutes(1))

    assert await rules(connection, now) == []


async def test_what_a_pause_has_dropped_has_its_answer(connection: Connection) -> None:
    schedule, now = await fires_every_minute(connection)
    for version, since, changes in (
        (2, now - minutes(40), {"enabled": False}),
        (3, now - minutes(20), {"enabled": True, "paused_until": None}),
    ):
        await connection.execute(
            "INSERT INTO pgcron.schedule_version"
            " (schedule_id, version, actor, interface, operation, content, since)"
            " SELECT schedule_id, $1, actor, interface, 'edit', content || $3::jsonb, $2"
            " FROM pgcron.schedule_version WHERE version = 1",
            version,
            since,
            json.dumps(changes),
        )
    kept = [now - minutes(n) for n in (*range(59, 39, -1), *range(19, 0, -1))]
    dropped = Dropped(now - minutes(39), now - minutes(20), 20, "paused")
    cursor = await cursor_of(connection, schedule)
    await materialize(
        connection, cursor, kept, watermark=now - minutes(1), next_fire=now, dropped=[dropped]
    )
    await connection.execute(
        "SET session_replication_role = replica; UPDATE pgcron.schedule SET version = 3;"
        " RESET session_replication_role"
    )

    assert await rules(connection, now) == []


async def test_what_somebody_settled_ahead_of_its_time_is_no_fault(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    ahead = await database_now(connection) + minutes(5)
    ahead = ahead.replace(second=0, microsecond=0)
    cursor = await cursor_of(connection, schedule)
    await materialize(connection, cursor, [ahead], next_fire=ahead + minutes(1))
    await connection.execute("SELECT pgcron.cancel_run(id) FROM pgcron.run")
    await connection.execute("UPDATE pgcron.schedule SET spec = '0 0 1 1 *'")

    assert await broken_rows(connection) == []
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", ahead)
    assert await rules(connection, ahead) == []
