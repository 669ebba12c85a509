"""What `demo` and `dev` ask of their database: the statements of ``sql/demo.sql``.

Rows are dictionaries, as `overview` gives them; errors are those of `pgcron_ha.errors`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg

from pgcron_ha.db.answers import answers
from pgcron_ha.db.overview import DEFAULT_LIMIT, Row, fetch_rows
from pgcron_ha.db.statements import DEFAULT_SCHEMA


async def make_database(connection: asyncpg.Connection, name: str, *, fresh: bool) -> None:
    """Have the database `name` (a plain name) on this server; an empty one if `fresh`."""
    if fresh:
        with answers():
            await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    (row,) = await fetch_rows(connection, "has_database", DEFAULT_SCHEMA, name=name)
    if not row["found"]:
        with answers():
            await connection.execute(f"CREATE DATABASE {name}")


async def clock(connection: asyncpg.Connection) -> datetime:
    """The database's clock."""
    (row,) = await fetch_rows(connection, "read_clock", DEFAULT_SCHEMA)
    now: datetime = row["now"]
    return now


async def schedules(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Schedules by name, each with its next fire and how its last run ended."""
    return await fetch_rows(connection, "demo_schedules", schema, limit=limit)


async def outcomes(
    connection: asyncpg.Connection,
    since: datetime,
    longest: timedelta,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Schedule, outcome, runs, retries since then, but for no longer than `longest` ago."""
    return await fetch_rows(connection, "demo_outcomes", schema, since=since, longest=longest)


async def asked_for(
    connection: asyncpg.Connection, since: datetime, *, limit: int, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """The newest runs that no schedule made; `result` is JSON text."""
    return await fetch_rows(connection, "demo_asked_for", schema, since=since, limit=limit)


async def has_executed(
    connection: asyncpg.Connection, since: datetime, *, schema: str = DEFAULT_SCHEMA
) -> bool:
    """Whether a run that was executed has ended since then."""
    (row,) = await fetch_rows(connection, "demo_has_executed", schema, since=since)
    return bool(row["found"])


async def has_unsettled(
    connection: asyncpg.Connection, until: datetime, *, schema: str = DEFAULT_SCHEMA
) -> bool:
    """Whether a run that fired by then is under way or was not tried yet."""
    (row,) = await fetch_rows(connection, "demo_has_unsettled", schema, until=until)
    return bool(row["found"])


async def definitions(
    connection: asyncpg.Connection, *, limit: int, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """What says which fires a schedule owes: its spec, zone and DST policy, `since` its edit."""
    return await fetch_rows(connection, "demo_definitions", schema, limit=limit)


async def ledger(
    connection: asyncpg.Connection,
    schedule_id: int,
    since: datetime,
    until: datetime,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The occurrences in (since, until], each with its run's live state and all its outcomes."""
    window = {"schedule_id": schedule_id, "since": since, "until": until}
    return await fetch_rows(connection, "demo_ledger", schema, **window)


async def missed(
    connection: asyncpg.Connection,
    schedule_id: int,
    since: datetime,
    until: datetime,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The missed ranges (first_at, last_at) that touch (since, until]."""
    window = {"schedule_id": schedule_id, "since": since, "until": until}
    return await fetch_rows(connection, "demo_missed", schema, **window)


async def delays(
    connection: asyncpg.Connection,
    schedule: str,
    since: datetime,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> tuple[float, float] | None:
    """The start delay of a schedule's runs in seconds: median and 99th percentile; None if none."""
    (row,) = await fetch_rows(connection, "demo_delays", schema, schedule=schedule, since=since)
    return None if row["delays"] is None else (row["delays"][0], row["delays"][1])


async def database_bytes(connection: asyncpg.Connection) -> int:
    """What the database takes on disk."""
    (row,) = await fetch_rows(connection, "demo_database_bytes", DEFAULT_SCHEMA)
    return int(row["bytes"])


async def tables(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> list[str]:
    """Our tables that are not partitioned, as SQL writes their names."""
    return [row["name"] for row in await fetch_rows(connection, "demo_tables", schema)]


async def analyze(connection: asyncpg.Connection, table: str) -> None:
    """Give PostgreSQL fresh statistics of a table, named as `tables` does."""
    with answers():
        await connection.execute(f"ANALYZE {table}")


async def report(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """What ended in the last ten minutes: job, outcome, runs, retries, milliseconds of a run."""
    return await fetch_rows(connection, "demo_report", schema)
