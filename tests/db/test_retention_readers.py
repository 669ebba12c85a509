"""What reads history says what it said when rules of retention have removed runs early."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    call,
    claim,
    database_now,
    finish,
    join,
    put_schedule,
)
from tests.db.retention import ended, kept, make_days, sweep
from tests.product.client import prove
from tests.product.db import broken_rows

NOON = timedelta(hours=12)


@pytest.fixture
async def connection(connection: Connection) -> Connection:
    """A database whose history has fifteen days."""
    await make_days(connection, 15)
    return connection


@pytest.fixture
async def schedule(connection: Connection) -> int:
    """Of each noon, since twenty days."""
    made = await put_schedule(connection, spec="0 12 * * *", timezone="UTC", overlap="queue")
    began = await database_now(connection) - timedelta(days=20)
    # A row's own trigger keeps since when it is there.
    await connection.execute(
        "SET session_replication_role = replica;"
        f" UPDATE pgcron.schedule SET created_at = '{began}';"
        " RESET session_replication_role"
    )
    await connection.execute("UPDATE pgcron.cursor SET since = $1, watermark = $1", began)
    await connection.execute("UPDATE pgcron.schedule_version SET since = $1", began)
    return made


async def noon(connection: Connection, days_ago: int) -> datetime:
    today: datetime = (await database_now(connection)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    return today + NOON - timedelta(days=days_ago)


async def fired(
    connection: Connection, schedule: int, days_ago: int, outcome: str = "succeeded", **given: Any
) -> int:
    """A fire of the schedule so many days ago, at noon, and its run, which ended so."""
    at = await noon(connection, days_ago)
    columns = {"origin": "schedule", "schedule": "job", **given}
    (run,) = await ended(
        connection, days_ago, schedule_id=schedule, scheduled_for=at, outcome=outcome, **columns
    )
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id, decided_at)"
        " VALUES ($1, $2, 'run', $3, $2)",
        schedule,
        at,
        run,
    )
    return run


async def shorten(connection: Connection, outcome: str | None = None) -> None:
    """Runs (that ended so) are kept for a day; what is over is removed."""
    await connection.execute("SELECT pgcron.set_retention('1 day', outcome => $1)", outcome)
    await sweep(connection)


async def values(connection: Connection, query: str, *given: Any) -> Sequence[Any]:
    row = await connection.fetchrow(query, *given)
    assert row is not None
    return tuple(row)


async def test_the_newest_runs_and_successes_of_a_schedule_stay(
    connection: Connection, schedule: int
) -> None:
    good = await ended(connection, 14, 12, schedule_id=schedule, origin="manual")
    bad = [await fired(connection, schedule, ago, "dead") for ago in range(13, 1, -1)]
    nobodys = await ended(connection, 9, 3)
    deleted = await ended(connection, 9, 3, schedule_id=schedule + 1000)
    expected = "SELECT pgcron.expected_duration($1)"
    await connection.execute("UPDATE pgcron.history SET started_at = finished_at - interval '1 h'")
    before = await connection.fetchval(expected, schedule)

    await shorten(connection)

    left = await kept(connection)
    assert left == [*good[2:], *bad[2:]]
    assert not {*nobodys, *deleted} & {*left}
    assert await connection.fetchval(expected, schedule) == before == timedelta(hours=1.5)


@pytest.mark.parametrize("since_then", [None, "succeeded", "cancelled"])
async def test_a_fire_that_depends_on_the_last_is_judged_as_before(
    connection: Connection, schedule: int, since_then: str | None
) -> None:
    await fired(connection, schedule, 12)
    await fired(connection, schedule, 9, "dead")
    for _ in range(30):
        await ended(connection, 9, schedule_id=schedule, origin="rerun", outcome="expired")
    if since_then is not None:
        await ended(connection, 8, schedule_id=schedule, origin="manual", outcome=since_then)
    judged = "SELECT * FROM pgcron.judge_previous($1, now())"
    reported = "SELECT * FROM pgcron.previous_run($1, now())"
    before = [await values(connection, ask, schedule) for ask in (judged, reported)]

    await shorten(connection)

    assert [await values(connection, ask, schedule) for ask in (judged, reported)] == before
    assert before[0][0] == ("fine" if since_then == "succeeded" else "failed")
    assert len(await kept(connection)) < 20


async def test_no_fire_is_said_to_be_missing(connection: Connection, schedule: int) -> None:
    for ago in range(13, 1, -1):
        await fired(connection, schedule, ago)
    long_ago = await database_now(connection) - timedelta(days=18)
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now(), next_fire = now() + interval '1 hour'"
    )

    await shorten(connection)

    assert len(await kept(connection)) == 10
    assert await broken_rows(connection, since=long_ago) == []
    # What no rule can have removed yet is still missed.
    lost = await fired(connection, schedule, 1)
    await connection.execute("DELETE FROM pgcron.history WHERE id = $1", lost)
    assert [row["run_id"] for row in await broken_rows(connection, since=long_ago)] == [lost]


async def test_a_schedule_that_has_had_its_runs_is_proved_without_them(
    connection: Connection, schedule: int
) -> None:
    for ago in range(13, 1, -1):
        await fired(connection, schedule, ago)
    await connection.execute(
        "SET session_replication_role = replica; UPDATE pgcron.schedule SET max_runs = 12;"
        " UPDATE pgcron.schedule_version SET content = content || '{\"max_runs\": 12}';"
        " RESET session_replication_role"
    )
    first, last = await noon(connection, 13), await noon(connection, 2)
    await connection.execute(
        "UPDATE pgcron.cursor SET since = $1, watermark = $2, next_fire = 'infinity',"
        " runs_made = 12",
        first - timedelta(hours=1),
        last,
    )
    await connection.execute(
        "UPDATE pgcron.schedule_version SET since = $1", first - timedelta(hours=1)
    )
    asked = first - timedelta(days=1)
    assert (await prove(connection, asked)).breaks == []

    await shorten(connection)

    assert len(await kept(connection)) == 10
    assert (await prove(connection, asked)).breaks == []


async def test_a_fire_that_was_made_good_is_not_filled_in_again(
    connection: Connection, schedule: int
) -> None:
    failed = await fired(connection, schedule, 9, "dead")
    (again,) = await ended(connection, 8, schedule_id=schedule, origin="rerun", parent_run=failed)
    for _ in range(15):
        await ended(connection, 7, schedule_id=schedule, origin="manual")
    await connection.execute(
        "INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args,"
        " delivery, timeout, attempts, redriven_as, closed_at) VALUES"
        " ($1, gen_random_uuid(), 'dead', 'default', 5, 'py:work', '{}', 'at_least_once', '1 h',"
        " 1, $2, now())",
        failed,
        again,
    )
    at = await noon(connection, 9)
    await connection.execute(
        "SELECT pgcron.backfill('job', $1::timestamptz, $1::timestamptz + interval '1 min',"
        " if_ran => 'failed')",
        at,
    )
    judged = (
        "SELECT j.verdict FROM pgcron.backfill b,"
        " LATERAL pgcron.judge_backfill(b, ARRAY[$1::timestamptz]) j"
    )
    assert await values(connection, judged, at) == ("leave",)

    await shorten(connection, "succeeded")

    assert again in await kept(connection)
    assert await values(connection, judged, at) == ("leave",)


async def test_what_a_backfill_has_still_to_count_stays(
    connection: Connection, schedule: int
) -> None:
    runs = [await fired(connection, schedule, ago, origin="backfill") for ago in range(14, 3, -1)]
    for _ in range(12):
        await ended(connection, 3, schedule_id=schedule, origin="schedule")
    await connection.execute(
        "INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at, made_at)"
        " SELECT pgcron.backfill('job', now() - interval '2 days', now()), id, scheduled_for,"
        " scheduled_for FROM pgcron.history WHERE id = $1",
        runs[0],
    )

    await shorten(connection)

    # The last two fires' runs stay, too.
    assert [run for run in await kept(connection) if run in runs] == [runs[0], *runs[-2:]]


async def test_a_fire_that_ran_ahead_of_its_time_is_not_missed_when_it_comes(
    connection: Connection, schedule: int
) -> None:
    run = await fired(connection, schedule, 10)
    for _ in range(12):
        await ended(connection, 3, schedule_id=schedule, origin="manual")
    for ago in (5, 4):
        await fired(connection, schedule, ago)
    await connection.execute(
        "UPDATE pgcron.history SET scheduled_for = now() - interval '1 hour' WHERE id = $1", run
    )
    await connection.execute(
        "UPDATE pgcron.occurrence SET fire_at = now() - interval '1 hour' WHERE run_id = $1", run
    )

    await shorten(connection)

    assert run in await kept(connection)
    assert await broken_rows(connection) == []


async def test_failures_before_a_success_are_forgotten_as_before(
    connection: Connection, schedule: int
) -> None:
    await connection.execute("UPDATE pgcron.schedule SET pause_after_failures = 5")
    failed = await fired(connection, schedule, 9, "dead")
    await fired(connection, schedule, 8)
    for ago in (7, 6, 5):
        await fired(connection, schedule, ago, "cancelled")
    await connection.execute(
        "INSERT INTO pgcron.fire_failure (run_id, schedule_id, failed_at)"
        " SELECT id, schedule_id, finished_at FROM pgcron.history WHERE id = $1",
        failed,
    )

    await shorten(connection)
    await call(connection, "forget_fire_failures", at_most=10)

    assert await connection.fetchval("SELECT count(*) FROM pgcron.fire_failure") == 0


async def test_of_a_run_that_was_removed_everybody_says_so(connection: Connection) -> None:
    (run,) = await ended(connection, 9)
    await connection.execute(
        "INSERT INTO pgcron.idempotency (key, run_id, expires_at) VALUES ('k', $1, now() + '1 h')",
        run,
    )
    await shorten(connection)

    assert await connection.fetch("SELECT * FROM pgcron.run_status($1)", run) == []
    for command in ("SELECT pgcron.wait($1)", "SELECT pgcron.retry_run($1)"):
        with pytest.raises(asyncpg.PostgresError) as reported:
            await connection.execute(command, run)
        assert reported.value.sqlstate == "PC010"
        assert "retention removed it" in str(reported.value) or "no longer kept" in str(
            reported.value
        )
    same = "SELECT pgcron.enqueue('py:work', idempotency_key => 'k')"
    assert await connection.fetchval(same) == run


async def test_why_says_that_it_ran(connection: Connection, schedule: int) -> None:
    for ago in range(14, 1, -1):
        await fired(connection, schedule, ago)
    await shorten(connection)

    asked = "SELECT decision, code, outcome, run_id IS NOT NULL FROM pgcron.why('job', $1)"
    assert await values(connection, asked, await noon(connection, 14)) == ("run", "run", None, True)
    assert await values(connection, asked, await noon(connection, 4)) == (
        "run",
        "run",
        "succeeded",
        True,
    )


async def test_a_sweep_that_is_cut_off_leaves_nothing_half_done(
    connection: Connection, another: Connect
) -> None:
    await ended(connection, 5, 2000)
    await connection.execute("SELECT pgcron.set_retention('1 day')")
    dying = await another()
    pid = await dying.fetchval("SELECT pg_backend_pid()")
    await dying.execute("BEGIN")
    cut = 0
    while not cut:
        cut = (await dying.fetch("SELECT * FROM pgcron.sweep_history(16)"))[0]["removed"]
    await connection.execute("SELECT pg_terminate_backend($1, 5000)", pid)
    # How asyncpg says that the server closed the connection depends on when it reads the message.
    gone = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
    with pytest.raises(gone):
        await dying.execute("COMMIT")

    assert len(await kept(connection)) == 2000
    assert await sweep(connection, 16) == 2000


async def test_claims_and_endings_go_on_while_a_batch_is_under_way(
    connection: Connection, another: Connect
) -> None:
    await ended(connection, 5, 500)
    await connection.execute("SELECT pgcron.set_retention('1 day')")
    node = await join(connection)
    await connection.execute("INSERT INTO pgcron.run (handler) VALUES ('py:work')")
    sweeping = await another()
    async with sweeping.transaction():
        while not (await sweeping.fetch("SELECT * FROM pgcron.sweep_history()"))[0]["removed"]:
            pass
        await connection.execute("SET lock_timeout = '20ms'")
        claimed = await claim(connection, node)

        assert await finish(connection, claimed) == [claimed[0]["id"]]


async def test_a_batch_reads_as_much_of_a_long_day_as_of_a_short_one(
    connection: Connection,
) -> None:
    for ago, runs in ((14, 500), (13, 10_000)):
        await ended(connection, ago, runs, queue="mail")
    await connection.execute("ANALYZE pgcron.history")
    await connection.execute("SELECT pgcron.set_retention('10 days', queue => 'etl')")
    removing = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgcron.sweep_history(8)"
    await connection.fetchval(removing)  # the day before, which is empty: catalogs are read now
    plans = [json.loads(await connection.fetchval(removing))[0]["Plan"] for _ in range(3)]
    pages = [plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans]
    assert pages[-1] < 1.5 * pages[0]
