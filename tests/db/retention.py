"""Ended runs of days gone by, as the tests of retention need them."""

from __future__ import annotations

from typing import Any

from tests.db.control import Connection

TABLES = ("history", "attempt", "log")


async def make_days(connection: Connection, days: int) -> None:
    """Partitions for so many days before today; what lies before the first has none."""
    for table in TABLES:
        await connection.execute(f"DROP TABLE IF EXISTS pgcron.{table}_before")
        for ago in range(days, 0, -1):
            await connection.execute(
                "SELECT pgcron.add_partition($1, date_trunc('day', now(), 'UTC') - $2 * interval"
                " '1 day', date_trunc('day', now(), 'UTC') - ($2 - 1) * interval '1 day')",
                table,
                ago,
            )


async def ended(connection: Connection, days_ago: float, count: int = 1, **given: Any) -> list[int]:
    """Runs that ended at noon so many days ago; `given` are columns of history."""
    columns = {"queue": "default", "outcome": "succeeded", "origin": "enqueue", **given}
    names = "".join(f", {name}" for name in columns)
    places = "".join(f", ${number}" for number in range(3, len(columns) + 3))
    rows = await connection.fetch(
        "INSERT INTO pgcron.history (id, uuid, priority, handler, args, delivery, attempt, due_at,"
        f" created_at, created_by, claimed_at, started_at, finished_at{names})"
        " SELECT nextval('pgcron.run_id_seq'), gen_random_uuid(), 5, 'py:work', '{}',"
        " 'at_least_once', 1, at, at, 'ana', at, at - interval '1 second',"
        f" at + n * interval '1 microsecond'{places}"
        " FROM (SELECT date_trunc('day', now(), 'UTC') + interval '12 hours'"
        " - $1::float8 * interval '1 day') day(at), generate_series(1, $2::int) n RETURNING id",
        days_ago,
        count,
        *columns.values(),
    )
    return [row["id"] for row in rows]


async def sweep(connection: Connection, pages: int = 64) -> int:
    """All that is due, until there is nothing; how many runs were removed."""
    removed = 0
    while rows := await connection.fetch("SELECT * FROM pgcron.sweep_history($1)", pages):
        removed += rows[0]["removed"]
    return removed


async def kept(connection: Connection) -> list[int]:
    """The runs of history."""
    rows = await connection.fetch("SELECT id FROM pgcron.history ORDER BY id")
    return [row["id"] for row in rows]
