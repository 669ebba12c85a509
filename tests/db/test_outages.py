"""Fires that were runs already when the last node went: the catch-up policy decides about them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db import control
from tests.db.control import Connection
from tests.product.db import connect

FIRES = 6
"""One a minute, all due; the first two before the last beat."""


async def outage(connection: Connection, catchup: str, **columns: Any) -> list[int]:
    """A schedule whose fires were made before the only node went; their runs, the oldest first."""
    node = await control.join(connection)
    columns = {"overlap": "allow", "catchup": catchup, **columns}
    schedule = await control.put_schedule(connection, **columns)
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - interval '1 hour', next_fire = 'infinity'"
    )
    cursor = await control.cursor_of(connection, schedule)
    now = await control.database_now(connection)
    # Not on whole minutes: one of them may pass between here and what looks at their age.
    fires = [now - control.minutes(count) for count in range(FIRES, 0, -1)]
    await control.materialize(connection, cursor, fires, watermark=now)
    await connection.execute(
        "UPDATE pgcron.run SET due_at = scheduled_for; UPDATE pgcron.cursor SET next_fire ="
        " 'infinity'"
    )
    await connection.execute(
        "UPDATE pgcron.node SET lease_until = $1::timestamptz + interval '30 seconds' + lease_ttl"
        " WHERE incarnation = $2",
        fires[1],
        node.incarnation,
    )
    rows = await connection.fetch("SELECT id FROM pgcron.run ORDER BY scheduled_for")
    return [row["id"] for row in rows]


async def end_late_fires(connection: Connection) -> int:
    rows = await control.call(connection, "end_late_fires", grace=2.0, at_most=1000)
    ended: int = rows[0]["ended"]
    return ended


async def waiting(connection: Connection) -> list[int]:
    rows = await connection.fetch("SELECT id FROM pgcron.run ORDER BY scheduled_for")
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    ("catchup", "kept", "reason"),
    [
        ("latest", 1, "it was late, and a newer late fire runs in its place"),
        ("latest 3", 3, "it was late, and a newer late fire runs in its place"),
        ("none", 0, "it was late, and its schedule does not catch up"),
        ("all", 4, None),
    ],
)
async def test_what_came_due_without_any_node_is_late(
    connection: Connection, catchup: str, kept: int, reason: str | None
) -> None:
    runs = await outage(connection, catchup)

    ended = await end_late_fires(connection)

    late = runs[2:]
    assert ended == len(late) - kept
    assert await waiting(connection) == runs[:2] + late[len(late) - kept :]
    reported = await connection.fetch(
        "SELECT decision, reason FROM pgcron.occurrence WHERE decision <> 'run'"
    )
    assert {(row["decision"], row["reason"]) for row in reported} == (
        {("skipped", reason)} if reason else set()
    )
    assert await end_late_fires(connection) == 0


async def test_a_newer_late_fire_without_a_run_takes_the_place_of_all_that_have_one(
    connection: Connection,
) -> None:
    runs = await outage(connection, "latest")
    await connection.execute("UPDATE pgcron.cursor SET next_fire = now() - interval '5 seconds'")

    assert await end_late_fires(connection) == 4
    assert await waiting(connection) == runs[:2]


async def test_while_a_node_has_its_lease_a_run_is_only_late(connection: Connection) -> None:
    runs = await outage(connection, "latest")
    await control.join(connection)

    assert await end_late_fires(connection) == 0
    assert await waiting(connection) == runs


async def test_what_has_begun_or_was_moved_by_a_person_stays(connection: Connection) -> None:
    runs = await outage(connection, "none")
    await connection.execute("UPDATE pgcron.run SET attempt = 1 WHERE id = $1", runs[3])
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, args)"
        " SELECT schedule_id, scheduled_for, 'edit', '{}' FROM pgcron.run WHERE id = $1",
        runs[4],
    )

    assert await end_late_fires(connection) == 2
    assert await waiting(connection) == [*runs[:2], runs[3], runs[4]]


async def test_what_is_older_than_the_window_ends(connection: Connection) -> None:
    runs = await outage(connection, "latest 5", catchup_window=control.minutes(3))

    assert await end_late_fires(connection) == 2
    assert await waiting(connection) == runs[:2] + runs[4:]
    reported = await connection.fetchval(
        "SELECT DISTINCT reason FROM pgcron.occurrence WHERE decision = 'skipped'"
    )
    assert reported == "it was late, and older than the catch-up window"


async def test_a_late_fire_that_cannot_be_skipped_ends_dead_and_the_others_are_skipped(
    connection: Connection,
) -> None:
    runs = await outage(connection, "none")
    fire = await connection.fetchval("SELECT scheduled_for FROM pgcron.run WHERE id = $1", runs[3])
    await connection.execute(
        "ALTER TABLE pgcron.occurrence ADD CONSTRAINT poison"
        f" CHECK (decision <> 'skipped' OR fire_at <> '{fire}') NOT VALID"
    )

    assert await end_late_fires(connection) == 3  # that were skipped

    assert await waiting(connection) == runs[:2]
    ended = await connection.fetch("SELECT id, state FROM pgcron.runs WHERE state = 'dead'")
    assert [row["id"] for row in ended] == [runs[3]]


async def test_a_late_fire_that_somebody_locks_keeps_nobody_waiting(
    database: str, connection: Connection
) -> None:
    runs = await outage(connection, "none")
    other = await connect(database)
    try:
        async with other.transaction():
            await other.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", runs[3])

            assert await end_late_fires(connection) == 3
    finally:
        await other.close()

    assert await waiting(connection) == [*runs[:2], runs[3]]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("schedule", "catchup = 'latest 99999999999999'"),
        ("schedule", "catchup_window = '178000000 years'"),
        ("node", "lease_ttl = '178000000 years'"),
    ],
)
async def test_a_row_that_breaks_its_rules_leaves_the_late_fires_of_others_to_their_policies(
    connection: Connection, table: str, change: str
) -> None:
    runs = await outage(connection, "none")
    bad = await control.put_schedule(connection, "bad")
    await connection.execute(
        "INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, due_at)"
        " SELECT 'schedule', $1, 'bad', at, 'py:work', at"
        " FROM (SELECT now() - interval '1 minute') fire(at)",
        bad,
    )
    await connection.execute(
        "INSERT INTO pgcron.node SELECT (jsonb_populate_record(n, jsonb_build_object("
        "'incarnation', gen_random_uuid(), 'name', 'bad'))).* FROM pgcron.node n"
    )
    constraints = await connection.fetch(
        "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = $1::regclass",
        f"pgcron.{table}",
    )
    for row in constraints:
        await connection.execute(f"ALTER TABLE pgcron.{table} DROP CONSTRAINT {row['conname']}")
    await connection.execute(f"UPDATE pgcron.{table} SET {change} WHERE name = 'bad'")

    await end_late_fires(connection)

    assert set(runs[2:]).isdisjoint(await waiting(connection))
