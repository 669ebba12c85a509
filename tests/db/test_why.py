from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.db.control import (
    Connection,
    claim,
    cursor_of,
    database_now,
    finish,
    join,
    materialize,
    minutes,
    put_schedule,
)
from tests.product.db import Reason, functions, why
from tests.product.model import MissedReason

# What the SQL functions write, and what becomes of it.
REPORTED = {
    "the last run is not over": ("skipped", "overlap_skipped", None, None),
    "overlap_skipped": ("skipped", "overlap_skipped", None, None),
    "3 runs are not over (max_running)": ("skipped", "overlap_skipped", None, None),
    "5 older runs wait (max_queued)": ("skipped", "overlap_queue_full", None, None),
    "1 older run waits (max_queued)": ("skipped", "overlap_queue_full", None, None),
    "run 7 came later (overlap replace)": ("superseded", "overlap_superseded", None, None),
    "skipped by ui:local: a: b": ("skipped", "skipped_by_hand", "ui:local", "a: b"),
    "cancelled by anna": ("cancelled", "cancelled_by_hand", "anna", None),
    "schedule was deleted": ("cancelled", "schedule_deleted", None, None),
    "it did not start before its deadline": ("expired", "start_deadline", None, None),
    "backfill 3 was stopped by anna: enough": ("cancelled", "backfill_stopped", "anna", "enough"),
    "some other sentence": ("cancelled", "cancelled", None, None),
}


async def ask(connection: Connection, instant: datetime) -> Reason:
    return await why(connection, "job", instant)


async def schedule_with_past(connection: Connection) -> tuple[int, datetime]:
    """A schedule since 2001, decided up to an hour ago; and an instant before that."""
    schedule = await put_schedule(connection)
    await connection.execute(
        "SET session_replication_role = replica;"
        " UPDATE pgcron.schedule SET created_at = '2001-01-01 00:00Z';"
        " UPDATE pgcron.cursor SET watermark = now() - interval '1 hour';"
        " RESET session_replication_role"
    )
    return schedule, (await database_now(connection)) - timedelta(hours=2)


@pytest.mark.parametrize("reported", REPORTED)
async def test_a_row_of_the_ledger_has_a_code_who_and_a_note(
    connection: Connection, reported: str
) -> None:
    schedule, at = await schedule_with_past(connection)
    decision, code, actor, note = REPORTED[reported]
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)"
        " VALUES ($1, $2, $3, $4)",
        schedule,
        at,
        decision,
        reported,
    )

    found = await ask(connection, at)

    assert (found.decision, found.reason, found.run) == (decision, reported, None)
    assert (found.code, found.actor, found.note) == (code, actor, note)
    assert found.decided_at is not None
    listed = await connection.fetchval("SELECT code FROM pgcron.occurrences")
    assert listed == code
    if code != decision:
        assert found.meaning.endswith(".")


@pytest.mark.parametrize("reason", [*MissedReason, "edited", "deleted", "paused"])
async def test_a_missed_range_has_a_code(connection: Connection, reason: str) -> None:
    schedule, at = await schedule_with_past(connection)
    await connection.execute(
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason, note)"
        " VALUES ($1, $2, $3, $4, $5)",
        schedule,
        at - minutes(1),
        at + minutes(1),
        str(reason),
        "cli:anna: a: holiday" if reason == "paused" else None,
    )

    found = await ask(connection, at)

    assert (found.decision, found.code) == ("missed", reason)
    expected = ("cli:anna", "a: holiday") if reason == "paused" else (None, None)
    assert (found.actor, found.note) == expected
    assert found.meaning.endswith(".")
    assert await connection.fetchval("SELECT code FROM pgcron.occurrences") == reason


async def test_an_instant_that_nobody_decided_says_so_in_one_way(connection: Connection) -> None:
    _, at = await schedule_with_past(connection)
    now = await database_now(connection)

    async def codes() -> list[str]:
        instants = ["2000-01-01 00:00Z", "2002-01-01 00:00Z"]
        found = [await ask(connection, datetime.fromisoformat(text)) for text in instants]
        found += [await ask(connection, instant) for instant in (at, now + minutes(9))]
        assert all(one.meaning for one in found)
        return [one.code for one in found]

    past = ["not_created", "not_kept", "not_an_instant"]
    assert await codes() == [*past, "not_yet"]
    await connection.execute("UPDATE pgcron.cursor SET status = 'invalid', error = '{}'")
    assert await codes() == [*past, "is_invalid"]
    await functions.pause_schedule(connection, "job", "a: holiday", actor="anna")
    paused = await ask(connection, now + minutes(9))
    assert (paused.decision, paused.code) == ("not yet", "is_paused")
    assert (paused.actor, paused.note) == ("anna", "a: holiday")


async def test_a_deleted_schedule_goes_on_answering(connection: Connection) -> None:
    schedule, at = await schedule_with_past(connection)
    cursor = await cursor_of(connection, schedule)
    await materialize(connection, cursor, watermark=at + minutes(90))
    await functions.delete_schedule(connection, "job", actor="anna")
    now = await database_now(connection)

    assert (await ask(connection, at)).code == "not_an_instant"
    gone = await ask(connection, now + minutes(1))
    assert (gone.decision, gone.code, gone.actor) == ("not an instant", "is_deleted", "anna")
    assert "it was deleted at 20" in (gone.reason or "")


async def test_an_override_is_told_before_and_after_it_is_decided(connection: Connection) -> None:
    schedule, _ = await schedule_with_past(connection)
    now = await database_now(connection)
    skipped, moved = now - minutes(20), now - minutes(10)
    await connection.executemany(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, due_at, actor, note)"
        " VALUES ($1, $2, $3, $4, 'anna', 'a holiday')",
        [(schedule, skipped, "skip", None), (schedule, moved, "move", now - minutes(5))],
    )

    before = [await ask(connection, skipped), await ask(connection, moved)]
    await materialize(connection, await cursor_of(connection, schedule), [skipped, moved])
    after = [await ask(connection, skipped), await ask(connection, moved)]

    assert [one.code for one in before] == ["not_yet", "not_yet"]
    assert "to be skipped" in (before[0].reason or "")
    assert "is to run at 20" in (before[1].reason or "")
    assert [one.code for one in after] == ["skipped_by_hand", "moved"]
    assert {(one.actor, one.note) for one in (*before, *after)} == {("anna", "a holiday")}
    assert [one.due_at for one in (*before, *after)] == [None, now - minutes(5)] * 2
    assert after[1].outcome == "blocked"
    assert after[1].late_by is not None
    assert minutes(5) <= after[1].late_by < minutes(9)


async def test_a_run_tells_how_late_it_began_and_what_came_of_it(connection: Connection) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    at = (await database_now(connection)) - minutes(3)
    await materialize(connection, await cursor_of(connection, schedule), [at])
    [run] = await claim(connection, await join(connection))
    await connection.execute("UPDATE pgcron.run SET started_at = claimed_at")
    running = await ask(connection, at)
    await finish(connection, [run])
    ended = await ask(connection, at)
    await connection.execute("DELETE FROM pgcron.history")
    forgotten = await ask(connection, at)

    assert [running.outcome, ended.outcome, forgotten.outcome] == ["running", "succeeded", None]
    assert {one.code for one in (running, ended, forgotten)} == {"run"}
    assert {one.run for one in (running, ended, forgotten)} == {run["id"]}
    assert ended.late_by is not None
    assert minutes(3) <= ended.late_by < minutes(4)
    assert forgotten.late_by is None


async def test_a_backfilled_instant_says_who_asked_for_it(connection: Connection) -> None:
    schedule, at = await schedule_with_past(connection)
    backfill = await connection.fetchval(
        "SELECT pgcron.backfill('job', $1, $2, note => 'lost disk', actor => 'anna')",
        at - minutes(1),
        at + minutes(1),
    )
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)"
        " VALUES ($1, $2, 'run', 'backfill ' || $3::text, 4711)",
        schedule,
        at,
        str(backfill),
    )

    found = await ask(connection, at)

    assert (found.code, found.actor, found.note) == ("backfilled", "anna", "lost disk")
    assert await connection.fetchval("SELECT code FROM pgcron.occurrences") == "backfilled"
