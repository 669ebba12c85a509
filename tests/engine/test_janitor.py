from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.db import control
from tests.db.control import Connect, Connection, Row
from tests.db.retention import ended, make_days
from tests.db.test_overruns import started
from tests.engine.conftest import MakeLink
from tests.engine.proxy import Proxy
from tests.product.db import Busy, Link
from tests.product.engine import Janitor
from tests.product.engine import janitor as janitors
from tests.product.telemetry import COUNTERS, Event, RunOverruns
from tests.waiting import until


@pytest.fixture
def janitor(link: Link) -> Janitor:
    return Janitor(link, "pgcron")


async def partitions(connection: Connection, table: str) -> list[str]:
    rows: list[Row] = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits"
        " WHERE inhparent = $1::regclass ORDER BY 1",
        f"pgcron.{table}",
    )
    return [row["name"] for row in rows]


async def make_old_partition(connection: Connection, table: str = "log") -> str:
    """One of a day 100 days ago; no row of it is kept."""
    before = set(await partitions(connection, table))
    await connection.execute(f"DROP TABLE pgcron.{table}_before")
    await connection.execute(
        "SELECT pgcron.add_partition($1, date_trunc('day', now(), 'UTC') - interval '100 days',"
        " date_trunc('day', now(), 'UTC') - interval '99 days')",
        table,
    )
    (made,) = set(await partitions(connection, table)) - before
    return made


async def detach_half(connection: Connection, interrupted: Link, partition: str) -> None:
    """Begins to detach a partition of the log, and gives up as somebody reads."""
    await interrupted.execute("SET lock_timeout = 200")
    detach = f"ALTER TABLE pgcron.log DETACH PARTITION {partition} CONCURRENTLY"
    async with connection.transaction():
        await connection.execute("SELECT count(*) FROM pgcron.log")
        with pytest.raises(Busy):
            await interrupted.execute(detach)


async def test_partitions_are_made_ahead(janitor: Janitor, connection: Connection) -> None:
    before = await partitions(connection, "history")
    dated = [name for name in before if name[-1].isdigit()]
    await connection.execute(f"DROP TABLE {dated[-1]}")

    await janitor.run_once()

    assert await partitions(connection, "history") == before


async def test_many_partitions_that_are_missing_are_made_one_call_after_the_other(
    janitor: Janitor, connection: Connection
) -> None:
    await connection.execute("UPDATE pgcron.retention SET ahead = '60 days' WHERE period = 'day'")

    while await janitor.run_once() == 0:
        pass

    assert await connection.fetchval("SELECT pgcron.ensure_partitions()") == 0


async def test_what_failed_is_tried_again_soon_and_the_rest_goes_on_meanwhile(
    janitor: Janitor, link: Link, connection: Connection
) -> None:
    await connection.execute("UPDATE pgcron.retention SET ahead = '20 days' WHERE period = 'day'")
    (late,) = await control.enqueue(connection, expire_at=datetime.now(UTC) - timedelta(hours=1))
    await link.execute("SET lock_timeout = 100")
    async with connection.transaction():
        await connection.execute(
            "SELECT pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, 1)"
        )
        assert (await janitor.run_once() or 60) <= 1  # seconds to the next pass
        assert [each.what for each in janitor.aside.entries()] == ["upkeep: partitions"]
        assert await control.run_row(connection, late) is None

    async def is_mended() -> bool:
        return await janitor.run_once() != 0 and not janitor.aside.entries()

    await until("it was done again", is_mended)
    assert len(await partitions(connection, "history")) > 20
    assert await connection.fetchval("SELECT pgcron.ensure_partitions()") == 0


async def test_while_a_table_is_locked_a_duty_tries_again_every_second(
    janitor: Janitor, link: Link, make_link: MakeLink, connection: Connection
) -> None:
    async def next_pass() -> float:
        while janitor.aside.waits(("duty", "forget_missed")):
            await janitor.rest(0.05)
        return await janitor.run_once() or 0.0

    link.witness = make_link().rows
    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.missed IN SHARE ROW EXCLUSIVE MODE")
        pauses = [await next_pass() for _ in range(3)]
        assert "upkeep: forget_missed" in [each.what for each in janitor.aside.entries()]
    assert all(0 < pause <= 1 for pause in pauses), pauses


async def test_one_duty_that_fails_keeps_no_other_from_its_turn(
    janitor: Janitor, connection: Connection
) -> None:
    await connection.execute(
        "ALTER TABLE pgcron.overrun RENAME COLUMN run_id TO spoilt;"
        "INSERT INTO pgcron.idempotency VALUES ('old', 1, now() - interval '1 second')"
    )
    old = await make_old_partition(connection)

    await janitor.run_once()

    assert "upkeep: forget_overruns" in [each.what for each in janitor.aside.entries()]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0
    assert old not in await partitions(connection, "log")


async def test_a_locked_run_that_has_expired_stops_no_upkeep(
    janitor: Janitor, connection: Connection, another: Connect
) -> None:
    runs = await control.enqueue(connection, 20)
    await connection.execute("UPDATE pgcron.run SET expire_at = now() - interval '1 second'")
    await connection.execute(
        "INSERT INTO pgcron.idempotency VALUES ('old', 1, now() - interval '1 second')"
    )
    other = await another()
    await other.execute("BEGIN")
    await other.execute("SELECT pgcron.cancel_run($1)", runs[5])

    await janitor.run_once()

    left = await connection.fetch("SELECT id FROM pgcron.run")
    assert [row["id"] for row in left] == [runs[5]]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0
    assert janitor.aside.entries() == []
    await other.execute("ROLLBACK")
    await janitor.run_once()
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0


async def test_many_expired_runs_whose_fires_are_locked_keep_no_other_from_expiring(
    janitor: Janitor, link: Link, connection: Connection, another: Connect
) -> None:
    """Together they take longer than a statement may."""
    schedule = await control.put_schedule(connection)
    locked = await control.enqueue(connection, 8)
    await control.enqueue(connection, 3)
    await connection.execute("UPDATE pgcron.run SET expire_at = now() - interval '1 second'")
    await connection.execute(
        "UPDATE pgcron.run SET origin = 'schedule', schedule_id = $1, schedule = 'job',"
        " scheduled_for = date_trunc('day', now()) + id * interval '1 second' WHERE id = ANY($2)",
        schedule,
        locked,
    )
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id)"
        " SELECT schedule_id, scheduled_for, 'run', id FROM pgcron.run WHERE id = ANY($1)",
        locked,
    )
    await link.execute("SET lock_timeout = 100")
    await link.execute("SET statement_timeout = 1500")
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM pgcron.occurrence FOR UPDATE")
        await janitor.run_once()

    left = {row["id"] for row in await connection.fetch("SELECT id FROM pgcron.run")}
    assert left == set(locked)


async def test_an_expired_run_that_cannot_be_written_keeps_no_other_from_expiring(
    janitor: Janitor, connection: Connection
) -> None:
    runs = await control.enqueue(connection, 1001)  # more than a batch
    await connection.execute(
        "UPDATE pgcron.run SET expire_at = now() - interval '1 second';"
        "UPDATE pgcron.run SET expire_at = now() - interval '1 minute', args = '{\"a\": 1}'"
        f" WHERE id = {runs[4]};"
        "ALTER TABLE pgcron.history_overflow ADD CHECK (args = '{}');"
        "ALTER TABLE pgcron.history ADD CHECK (args = '{}')"
    )
    before = COUNTERS.occurrences["expired"]

    await janitor.run_once()

    ended = await connection.fetch("SELECT state, count(*) FROM pgcron.runs GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in ended] == [("dead", 1), ("expired", 1000)]
    assert COUNTERS.occurrences["expired"] - before == 1000


async def test_what_is_over_is_removed_while_there_is_any_in_one_pass(
    janitor: Janitor, connection: Connection
) -> None:
    count = 3 * janitors.BATCH
    await connection.execute(
        f"""INSERT INTO pgcron.idempotency
              SELECT 'key ' || n, n, now() - interval '1 hour' FROM generate_series(1, {count}) n;
            INSERT INTO pgcron.progress (run_id, attempt, at, done)
              SELECT n, 1, now(), 1 FROM generate_series(1, {count}) n"""
    )
    await control.enqueue(connection, count)
    await connection.execute("UPDATE pgcron.run SET expire_at = now() - interval '1 second'")

    async def nothing_is_aside() -> bool:
        """After a pass. A statement that is too slow on a busy machine is set aside."""
        while await janitor.run_once() is not None:
            pass
        return not janitor.aside.entries()

    await until("no statement is too slow", nothing_is_aside)

    for table in ("idempotency", "progress", "run"):
        assert await connection.fetchval(f"SELECT count(*) FROM pgcron.{table}") == 0


async def test_progress_of_runs_that_are_over_is_removed(
    janitor: Janitor, connection: Connection
) -> None:
    (alive,) = await control.enqueue(connection)
    await connection.execute(
        "INSERT INTO pgcron.progress (run_id, attempt, at, done)"
        " SELECT run, 1, now(), 1 FROM unnest($1::bigint[]) run",
        [alive, alive + 1, alive + 2],
    )

    await janitor.run_once()

    left = await connection.fetch("SELECT run_id FROM pgcron.progress")
    assert [row["run_id"] for row in left] == [alive]


async def test_an_overrun_is_told_by_one_of_two_janitors(
    janitor: Janitor, link: Link, connection: Connection, events: list[Event]
) -> None:
    _, run = await started(connection, 40)

    await janitor.run_once()
    await Janitor(link, "pgcron").run_once()

    [reported] = [event for event in events if isinstance(event, RunOverruns)]
    assert reported.run == run
    assert re.search(r" [45]\d s; expected about 30 s", reported.sentence())


@pytest.mark.parametrize("table", ["log", "audit"])
async def test_partitions_that_outlived_their_rows_are_dropped(
    table: str, janitor: Janitor, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_table_retention('audit', '90 days')")
    old = await make_old_partition(connection, table)
    kept = set(await partitions(connection, table)) - {old}

    await janitor.run_once()

    assert set(await partitions(connection, table)) == kept
    assert await connection.fetchval("SELECT to_regclass($1)", old) is None


async def test_a_drop_that_was_interrupted_half_way_is_finished(
    janitor: Janitor, connection: Connection, make_link: MakeLink
) -> None:
    old = await make_old_partition(connection)
    await detach_half(connection, make_link(), old)

    await janitor.run_once()

    assert await connection.fetchval("SELECT to_regclass($1)", old) is None


async def test_what_somebody_detached_is_not_dropped(
    janitor: Janitor, connection: Connection
) -> None:
    mine = await make_old_partition(connection, "attempt")
    await connection.execute(f"ALTER TABLE pgcron.attempt DETACH PARTITION {mine}")

    await janitor.run_once()

    assert await connection.fetchval("SELECT to_regclass($1)", mine) is not None


async def test_a_reader_of_an_old_partition_is_not_waited_for_for_ever(
    janitor: Janitor, link: Link, connection: Connection
) -> None:
    old = await make_old_partition(connection)
    async with connection.transaction():
        await connection.execute("SELECT count(*) FROM pgcron.log")

        await janitor.run_once()

        assert old in await partitions(connection, "log")
    assert link.is_open
    await Janitor(link, "pgcron").run_once()  # in an hour
    assert await connection.fetchval("SELECT to_regclass($1)", old) is None


async def test_a_partition_that_can_not_be_dropped_is_set_aside_and_keeps_no_other(
    janitor: Janitor, link: Link, connection: Connection
) -> None:
    used = await make_old_partition(connection, "attempt")
    old = await make_old_partition(connection, "log")
    await connection.execute(f"CREATE TEMP VIEW mine AS SELECT run_id FROM {used}")

    await janitor.run_once()

    assert old not in await partitions(connection, "log")
    [aside] = janitor.aside.entries()
    assert aside.what == f"partition {used.removeprefix('pgcron.')}"
    assert "depend on it" in aside.error
    await connection.execute("DROP VIEW mine")
    await Janitor(link, "pgcron").run_once()  # in an hour
    assert await connection.fetchval("SELECT to_regclass($1)", used) is None


async def test_what_overflowed_goes_where_it_belongs(
    janitor: Janitor, connection: Connection
) -> None:
    node = await control.join(connection)
    await control.enqueue(connection, 3)
    await control.finish(connection, await control.claim(connection, node))
    await connection.execute(
        "INSERT INTO pgcron.history_overflow SELECT * FROM pgcron.history; "
        "DELETE FROM pgcron.history"
    )

    await janitor.run_once()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 3
    assert await connection.fetchval("SELECT count(*) FROM pgcron.history_overflow") == 0


async def test_an_end_that_history_refuses_keeps_no_other_in_the_overflow(
    janitor: Janitor, connection: Connection
) -> None:
    node = await control.join(connection)
    runs = await control.enqueue(connection, 5)
    await control.finish(connection, await control.claim(connection, node))
    await connection.execute(
        "INSERT INTO pgcron.history_overflow SELECT * FROM pgcron.history; "
        "DELETE FROM pgcron.history; "
        f"ALTER TABLE pgcron.history ADD CONSTRAINT poison CHECK (id <> {runs[2]})"
    )

    await janitor.run_once()
    await janitor.run_once()  # while it waits, the other duties have their turn

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 4
    [entry] = janitor.aside.entries()
    assert entry.what == f"history of run {runs[2]}"
    assert 'violates check constraint "poison"' in entry.error


async def test_a_run_that_cannot_be_given_up_ends_dead_and_the_others_are_given_up(
    janitor: Janitor, connection: Connection
) -> None:
    runs = await control.enqueue(connection, 3)
    await connection.execute(
        "UPDATE pgcron.run SET attempt = 1, expire_at = now() - interval '1 minute',"
        ' time_limits = \'{"give_up_at": "2026-01-01T00:00:00Z", "give_up_after": 60}\''
    )
    await connection.execute(
        "ALTER TABLE pgcron.dead_letter ADD CONSTRAINT poison"
        f" CHECK (run_id <> {runs[1]} OR error_class = 'RunRefused') NOT VALID"
    )

    await janitor.run_once()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    letters = await connection.fetch("SELECT run_id, error_class FROM pgcron.dead_letter")
    assert {row["run_id"]: row["error_class"] for row in letters} == {
        runs[0]: "GivenUp",
        runs[1]: "RunRefused",
        runs[2]: "GivenUp",
    }


async def test_partitions_far_ahead_are_made_a_few_in_a_pass(
    janitor: Janitor, connection: Connection
) -> None:
    await connection.execute(
        "ALTER TABLE pgcron.retention DROP CONSTRAINT partitions_are_made_a_day_to_a_year_ahead"
    )
    await connection.execute(
        "UPDATE pgcron.retention SET ahead = '10 years' WHERE relation = 'log'"
    )
    before = await partitions(connection, "log")

    await janitor.run_once()

    assert janitor.aside.entries() == []
    assert len(await partitions(connection, "log")) == len(before) + 50


async def test_a_rule_of_retention_that_nobody_can_follow_stops_no_other_duty(
    janitor: Janitor, connection: Connection
) -> None:
    await connection.execute(
        "ALTER TABLE pgcron.retention_rule DROP CONSTRAINT a_retention_rule_keeps_a_day"
    )
    await connection.execute(
        "INSERT INTO pgcron.retention_rule (queue, keep) VALUES ('default', '178000000 years')"
    )
    await make_days(connection, 2)
    await ended(connection, days_ago=1)

    await janitor.run_once()

    assert [each.what for each in janitor.aside.entries()] == ["upkeep: sweep of history"]


async def test_a_run_past_its_start_deadline_expires(
    janitor: Janitor, connection: Connection
) -> None:
    late, early = await control.enqueue(connection, 2)
    await connection.execute(
        "UPDATE pgcron.run SET expire_at = now() - interval '1 second' WHERE id = $1", late
    )
    await connection.execute(
        "UPDATE pgcron.run SET expire_at = now() + interval '1 hour' WHERE id = $1", early
    )

    await janitor.run_once()

    row = await control.history_row(connection, late)
    assert row is not None
    assert (row["outcome"], row["error"]) == ("expired", "it did not start before its deadline")
    assert await control.run_row(connection, early) is not None


@pytest.mark.parametrize(("expires", "is_soon"), [("8 seconds", True), ("300 years", False)])
async def test_what_expires_soon_does_not_wait_for_the_next_round_of_upkeep(
    janitor: Janitor, connection: Connection, expires: str, is_soon: bool
) -> None:
    await control.enqueue(connection, 1)
    await connection.execute(f"UPDATE pgcron.run SET expire_at = now() + interval '{expires}'")

    while (rest := await janitor.run_once()) == 0:
        pass

    assert (rest is not None and janitors.SOONEST_SECONDS <= rest <= 8) == is_soon


async def test_a_pass_for_what_expires_leaves_the_other_duties_to_their_time(
    janitor: Janitor, link: Link, connection: Connection
) -> None:
    await control.enqueue(connection, 1)
    await connection.execute("UPDATE pgcron.run SET expire_at = now() + interval '8 seconds'")
    while await janitor.run_once() == 0:
        pass
    await connection.execute(
        "INSERT INTO pgcron.queue (name) VALUES ('q');"
        "ALTER TABLE pgcron.queue DROP CONSTRAINT a_queue_runs_1_to_100000_at_once;"
        "UPDATE pgcron.queue SET max_running = 0"
    )

    await janitor.run_once()
    assert janitor.aside.entries() == []

    fresh = Janitor(link, "pgcron")
    await fresh.run_once()
    assert [each.what for each in fresh.aside.entries()] == ["queue 'q'"]


async def test_a_clock_that_was_set_forward_stops_no_run(
    janitor: Janitor, connection: Connection
) -> None:
    """Only the run's node measures how long it executes, by a clock that nobody sets."""
    node = await control.join(connection)
    (run,) = await control.enqueue(connection, timeout=timedelta(minutes=1))
    await control.claim(connection, node)
    await connection.execute("UPDATE pgcron.run SET started_at = now() - interval '2 hours'")

    await janitor.run_once()

    row = await control.run_row(connection, run)
    assert row is not None
    assert (row["state"], row["cancel_at"]) == ("running", None)


async def test_keys_and_nodes_that_are_long_gone_are_forgotten(
    janitor: Janitor, connection: Connection
) -> None:
    for age in ("1 hour", "2 days"):
        node = await control.join(connection)
        await control.kill(connection, node)
        await connection.execute(
            f"UPDATE pgcron.node SET ended_at = now() - interval '{age}' WHERE incarnation = $1",
            node.incarnation,
        )
    await connection.execute(
        "INSERT INTO pgcron.idempotency VALUES ('old', 1, now() - interval '1 second'),"
        " ('living', 2, now() + interval '1 hour')"
    )
    await connection.execute(
        "INSERT INTO pgcron.unique_period VALUES ('old', 'py:x', 1, now() - interval '1 second'),"
        " ('living', 'py:x', 2, now() + interval '1 hour')"
    )

    await janitor.run_once()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.node") == 1
    assert await connection.fetchval("SELECT string_agg(key, ',') FROM pgcron.idempotency") == (
        "living"
    )
    assert await connection.fetchval("SELECT string_agg(key, ',') FROM pgcron.unique_period") == (
        "living"
    )


async def test_an_ordinary_pass_finds_nothing_and_does_the_rare_duties_once(
    janitor: Janitor, connection: Connection, events: list[Event]
) -> None:
    await control.put_schedule(connection)
    assert await janitor.run_once() is None
    old = await make_old_partition(connection)

    assert await janitor.run_once() is None

    assert events == []
    assert old in await partitions(connection, "log")


async def test_an_invalid_schedule_is_looked_at_again(
    janitor: Janitor, connection: Connection
) -> None:
    schedule = await control.put_schedule(connection)
    await connection.execute("UPDATE pgcron.cursor SET status = 'invalid', error = '{}'")

    await janitor.run_once()

    assert (await control.cursor_of(connection, schedule))["status"] == "unchecked"


async def test_a_database_that_goes_away_during_a_sweep_is_no_lack_of_partitions(
    make_link: MakeLink, proxy: Proxy, database: str
) -> None:
    janitor = Janitor(make_link(proxy.dsn(database), answer_seconds=2.0), "pgcron")
    proxy.lose_answer_to("history_overflow")

    await janitor.run_once()

    assert [each.what for each in janitor.aside.entries()] == ["upkeep: overflow"]
