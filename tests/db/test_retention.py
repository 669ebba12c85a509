"""Rules of retention: which ended runs they remove, how, and what goes with them."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.db.control import Connect, Connection, call
from tests.db.retention import ended, kept, make_days, sweep


@pytest.fixture
async def connection(connection: Connection) -> Connection:
    """A database whose history has twelve days."""
    await make_days(connection, 12)
    return connection


async def set_rule(
    connection: Connection, keep: str, queue: str | None = None, outcome: str | None = None
) -> None:
    await connection.execute(
        "SELECT pgcron.set_retention($1::text::interval, $2, $3)", keep, queue, outcome
    )


async def test_the_most_specific_rule_counts(connection: Connection) -> None:
    await set_rule(connection, "10 days")
    await set_rule(connection, "5 days", outcome="succeeded")
    await set_rule(connection, "7 days", queue="mail")
    await set_rule(connection, "2 days", queue="mail", outcome="succeeded")
    kinds = [(queue, outcome) for queue in ("mail", "etl") for outcome in ("succeeded", "dead")]
    runs = {
        (*kind, ago): (await ended(connection, ago, queue=kind[0], outcome=kind[1]))[0]
        for kind in kinds
        for ago in range(1, 13)
    }

    await sweep(connection)

    left = set(await kept(connection))
    oldest = {kind: max(ago for ago in range(1, 13) if runs[*kind, ago] in left) for kind in kinds}
    # A day goes when all of it is over: what ended two days ago belongs to one that is not.
    assert oldest == {
        ("mail", "succeeded"): 2,
        ("mail", "dead"): 7,
        ("etl", "succeeded"): 5,
        ("etl", "dead"): 10,
    }


async def test_without_a_rule_nothing_is_looked_at(connection: Connection) -> None:
    await ended(connection, 10)

    assert await sweep(connection) == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.retention_sweep") == 0


async def test_it_goes_on_where_it_stopped_and_a_changed_rule_begins_again(
    connection: Connection,
) -> None:
    await set_rule(connection, "1 day", "mail")
    await ended(connection, 5, 3000, queue="mail")
    await ended(connection, 5, 1000, queue="etl")
    pages = await connection.fetchval(
        "SELECT pg_relation_size(tableoid) / 8192 FROM pgcron.history LIMIT 1"
    )

    calls = 0
    while (row := await connection.fetchrow("SELECT * FROM pgcron.sweep_history(8)")) is not None:
        calls += row["partition"] == await connection.fetchval(
            "SELECT relname FROM pg_class WHERE oid = (SELECT tableoid FROM pgcron.history LIMIT 1)"
        )
    assert calls == -(-pages // 8)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 1000

    assert await sweep(connection) == 0
    await set_rule(connection, "1 day", "etl")
    assert await sweep(connection) == 1000


async def test_a_rewritten_day_is_begun_again(connection: Connection) -> None:
    await ended(connection, 5, 2000, queue="etl")
    await ended(connection, 5, 500, queue="mail")
    await set_rule(connection, "4 days", "mail")
    while (await connection.fetchval("SELECT partition FROM pgcron.sweep_history(8)")) is not None:
        if await connection.fetchval("SELECT bool_or(page = 16) FROM pgcron.retention_sweep"):
            break
    day = await connection.fetchval("SELECT max(tableoid::regclass::text) FROM pgcron.history")
    # The runs of the queue lie last; ordered anew they lie before the page that was reached.
    await connection.execute(
        f"CREATE INDEX backwards ON {day} (id DESC); CLUSTER {day} USING backwards"
    )

    assert await sweep(connection) == 500


@pytest.mark.parametrize(("swept_ago", "removed"), [("3 days", 1), ("2 hours", 0)])
async def test_a_day_is_looked_at_again_when_a_longer_rule_has_become_due(
    connection: Connection, swept_ago: str, removed: int
) -> None:
    await set_rule(connection, "3 days", "mail")
    await set_rule(connection, "5 days", "etl")
    await ended(connection, 7, queue="etl")
    day = await connection.fetchval("SELECT tableoid::regclass FROM pgcron.history")
    await sweep(connection)
    (late,) = await ended(connection, 7, queue="etl")
    await connection.execute(
        "UPDATE pgcron.retention_sweep SET began_at = now() - $1::text::interval", swept_ago
    )

    assert await sweep(connection) == removed
    assert (late in await kept(connection)) == (removed == 0), day


async def test_two_at_once_take_different_days_and_remove_each_run_once(
    connection: Connection, another: Connect
) -> None:
    other = await another()
    for ago in (3, 4, 5):
        await ended(connection, ago, 2000, queue="mail")
    await set_rule(connection, "1 day", "mail")

    removed = await asyncio.gather(sweep(connection, 8), sweep(other, 8))

    assert sum(removed) == 6000
    assert min(removed) > 0
    assert await kept(connection) == []


async def test_a_second_one_does_not_wait_for_the_first(
    connection: Connection, another: Connect
) -> None:
    other = await another()
    await ended(connection, 3, 100, queue="mail")
    await set_rule(connection, "2 days", "mail")
    await sweep(connection)  # the older, empty days
    await connection.execute("UPDATE pgcron.retention_sweep SET rules = '' WHERE removed > 0")
    await other.execute("SET lock_timeout = '50ms'")
    async with connection.transaction():
        assert await connection.fetch("SELECT * FROM pgcron.sweep_history()")

        assert await other.fetch("SELECT * FROM pgcron.sweep_history()") == []


async def test_attempts_and_lines_go_with_their_run(connection: Connection) -> None:
    (gone,) = await ended(connection, 4, queue="mail", outcome="dead")
    (open_letter,) = await ended(connection, 4, queue="mail", outcome="dead")
    (stays,) = await ended(connection, 4, queue="etl")
    for run in (gone, open_letter, stays):
        await connection.execute(
            "INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, fence, claimed_at,"
            " ended_at) SELECT $1, 1, 'failed', gen_random_uuid(), 1, h.claimed_at, h.finished_at"
            " FROM pgcron.history h WHERE h.id = $1",
            run,
        )
        await connection.execute(
            "INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line)"
            " SELECT $1, 1, 1, h.started_at, 'stdout', 'hello' FROM pgcron.history h"
            " WHERE h.id = $1",
            run,
        )
    await connection.execute(
        "INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args,"
        " delivery, timeout, attempts) VALUES"
        " ($1, gen_random_uuid(), 'dead', 'mail', 5, 'py:work', '{}', 'at_least_once', '1 h',"
        " 1)",
        open_letter,
    )
    await set_rule(connection, "1 day", "mail")

    assert await sweep(connection) == 2

    assert await kept(connection) == [stays]
    for table in ("attempt", "log"):
        rows = await connection.fetch(f"SELECT run_id FROM pgcron.{table} ORDER BY 1")
        assert [row["run_id"] for row in rows] == [open_letter, stays], table
    assert await connection.fetchval("SELECT run_id FROM pgcron.dead_letter") == open_letter


async def test_a_day_of_which_most_is_gone_is_told_to_one_and_shrinks(
    connection: Connection,
) -> None:
    await ended(connection, 4, 9000, queue="mail")
    await ended(connection, 4, 100, queue="etl")
    await set_rule(connection, "1 day", "mail")
    await sweep(connection)

    (row,) = await connection.fetch("SELECT pgcron.spent_partitions() AS name")
    assert await connection.fetch("SELECT pgcron.spent_partitions()") == []

    assert await call(connection, "note_given_back", partition=row["name"]) == []
    await connection.execute(f"VACUUM (FULL, SKIP_LOCKED) pgcron.{row['name']}")
    assert await call(connection, "note_given_back", partition=row["name"])
    assert len(await kept(connection)) == 100
    await connection.execute("UPDATE pgcron.retention_sweep SET tried_at = NULL")
    assert await connection.fetch("SELECT pgcron.spent_partitions()") == []


async def test_room_that_an_old_snapshot_still_needs_is_not_given_back(
    connection: Connection, another: Connect
) -> None:
    await ended(connection, 4, 9000, queue="mail")
    await connection.execute("SELECT pgcron.set_retention('3 days', 'mail')")
    reader = await another()
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM pgcron.history")
        await sweep(connection)
        (row,) = await connection.fetch("SELECT pgcron.spent_partitions() AS name")
        await connection.execute(f"VACUUM (FULL, SKIP_LOCKED) pgcron.{row['name']}")
        assert await call(connection, "note_given_back", partition=row["name"]) == []

    assert await connection.fetchval("SELECT bool_or(gone > 0) FROM pgcron.retention_sweep") is True


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("VALUES ('a queue', NULL, '2 days')", "queue 'a queue' is not a queue name"),
        ("VALUES ('', NULL, '2 days')", "queue '' is not a queue name"),
        ("VALUES (NULL, 'failed', '2 days')", "outcome 'failed' is not known"),
        ("VALUES (NULL, NULL, '23 hours')", "retention 23:00:00 is out of range"),
    ],
)
async def test_a_rule_by_plain_sql_is_judged(
    connection: Connection, command: str, fact: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as reported:
        await connection.execute(
            f"INSERT INTO pgcron.retention_rule (queue, outcome, keep) {command}"
        )

    assert reported.value.sqlstate == "PC001"
    assert str(reported.value).startswith(fact + "\n")
    assert reported.value.detail
    assert reported.value.hint


async def test_history_kept_shorter_than_a_rule_is_what_counts(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="31 days is longer than that of history"):
        await set_rule(connection, "31 days")
    await set_rule(connection, "20 days", "mail")
    await connection.execute("SELECT pgcron.set_table_retention('history', '5 days')")

    asked = "SELECT pgcron.history_keep('mail', 'dead') = interval '5 days'"
    assert await connection.fetchval(asked) is True
    with pytest.raises(asyncpg.PostgresError, match="retention 290000 years is out of range"):
        await connection.execute("SELECT pgcron.set_table_retention('history', '290000 years')")
    with pytest.raises(asyncpg.PostgresError, match="no table with a retention"):
        await connection.execute("SELECT pgcron.set_table_retention('run', '5 days')")
    with pytest.raises(asyncpg.PostgresError, match="every queue and outcome 'lost'"):
        await connection.execute("SELECT pgcron.delete_retention(outcome => 'lost')")
