"""Partitions after a long time in which nobody made any."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from tests.db.control import Connection
from tests.db.retention import ended

TABLES = ("occurrence", "history", "attempt", "log")


async def age(connection: Connection, days: int) -> None:
    """As if the last partitions had been made so many days ago, up to 7 days ahead."""
    names = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits i"
        " JOIN pgcron.retention r ON i.inhparent = ('pgcron.' || r.relation)::regclass"
    )
    await connection.execute(f"DROP TABLE {', '.join(row['name'] for row in names)}")
    for table in TABLES:
        await connection.execute(
            "SELECT pgcron.add_partition($1, '-infinity',"
            " date_trunc('day', now(), 'UTC') - $2::interval)",
            table,
            timedelta(days=days - 7),
        )


async def made_at_once(connection: Connection) -> list[int]:
    """What one call after the other makes, until there is nothing to make."""
    made = []
    while count := await connection.fetchval("SELECT pgcron.ensure_partitions()"):
        made.append(count)
    return made


async def holes(connection: Connection) -> list[str]:
    """Tables whose partitions do not follow upon each other up to their `ahead`."""
    rows = await connection.fetch("""
        WITH bound AS (
          SELECT r.relation, r.ahead, b.low, b.high,
                 lag(b.high) OVER (PARTITION BY r.relation ORDER BY b.high) AS before
            FROM pgcron.retention r
            JOIN pg_inherits i ON i.inhparent = ('pgcron.' || r.relation)::regclass
            JOIN pg_class c ON c.oid = i.inhrelid
           CROSS JOIN LATERAL (
             SELECT (regexp_match(e, 'FROM \\(''([^'']+)'))[1]::timestamptz AS low,
                    (regexp_match(e, 'TO \\(''([^'']+)'))[1]::timestamptz AS high
               FROM pg_get_expr(c.relpartbound, c.oid) e) b)
        SELECT relation FROM bound GROUP BY relation
        HAVING bool_or(low <> before) OR max(high) < now() + max(ahead)
        """)
    return [row["relation"] for row in rows]


@pytest.mark.parametrize("days", [9, 25, 3 * 365])
async def test_after_years_without_a_node_a_few_partitions_are_made(
    connection: Connection, days: int
) -> None:
    await age(connection, days)

    made = await made_at_once(connection)

    assert sum(made) < 90
    assert max(made) <= 50
    assert await holes(connection) == []
    # Whatever still comes for the time between has its place, and that of today first.
    await ended(connection, days / 2)


async def test_the_first_call_makes_those_of_today(connection: Connection) -> None:
    await age(connection, 3 * 365)

    await connection.execute("SELECT pgcron.ensure_partitions()")

    await ended(connection, 0)
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)"
        " SELECT 1, at, 'skipped', 'calendar'"
        " FROM unnest(ARRAY[now(), now() - interval '600 days']) at"
    )


async def test_two_long_pauses_that_begin_in_one_month_have_a_partition_each(
    connection: Connection,
) -> None:
    bounds = ("-infinity", "2020-05-03", "2020-05-12", "2020-05-14", "2020-05-25")
    for name in await connection.fetch(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'pgcron.log'::regclass"
    ):
        await connection.execute(f"DROP TABLE {name[0]}")

    for low, high in pairwise(bounds):
        assert await connection.fetchval(
            "SELECT pgcron.add_partition('log', $1::text::timestamptz, $2::text::timestamptz)",
            low,
            high,
        )
