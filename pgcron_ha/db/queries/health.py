"""What `pgcron-ha doctor` asks: the statements of ``sql/health.sql``, which change nothing."""

from __future__ import annotations

from typing import Final

import asyncpg

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, Row, fetch_rows

# Past these a snapshot is felt: claims walk over the dead rows of that many transactions.
OLD_SNAPSHOT_TRANSACTIONS: Final = 1_000_000
LONG_TRANSACTION_SECONDS: Final = 300.0
# A log that grows so far is not one that a standby fetches after its restart.
MUCH_LOG_BYTES: Final = 1024**3
# Fewer dead rows than this are gone before anybody feels them.
MANY_DEAD_ROWS: Final = 100_000
LARGE_INDEX_BYTES: Final = 64 * 1024 * 1024
LARGE_DAY_BYTES: Final = 64 * 1024 * 1024
# The widest of our indexes needs about a hundred when it is half empty.
MOST_BYTES_AN_ENTRY: Final = 400
# A statement of the engine's holds an advisory lock for milliseconds.
LONG_LOCK_SECONDS: Final = 30.0
# Younger statistics say nothing about who never came.
YOUNG_STATISTICS_SECONDS: Final = 86_400.0
# With the owner's rights, and for everybody: each asks who the caller is.
FOR_EVERYBODY: Final = ("run_status", "live_state", "await_runs", "judge_guest")


async def server(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Version, clock, and the settings that work or safety depend on."""
    (found,) = await fetch_rows(connection, "read_server", schema)
    return found


async def snapshot_holders(
    connection: asyncpg.Connection,
    *,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Who keeps dead rows alive: kind, name, age in transactions, seconds, other_database (None:
    it is in ours); the oldest first.
    """
    return await fetch_rows(
        connection,
        "list_snapshot_holders",
        schema,
        age=OLD_SNAPSHOT_TRANSACTIONS,
        seconds=LONG_TRANSACTION_SECONDS,
        limit=limit,
    )


async def idle_slots(
    connection: asyncpg.Connection,
    *,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Replication slots that nobody reads, and that keep much of the log: name, bytes."""
    return await fetch_rows(
        connection, "list_idle_slots", schema, least=MUCH_LOG_BYTES, limit=limit
    )


async def tables_without_autovacuum(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Tables of the schema for which somebody turned autovacuum off: name, option."""
    return await fetch_rows(connection, "list_tables_without_autovacuum", schema, limit=limit)


async def broken_indexes(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Indexes of the schema that no statement uses: name, relation, has_partitions."""
    return await fetch_rows(connection, "list_broken_indexes", schema, limit=limit)


async def dead_rows(
    connection: asyncpg.Connection,
    *,
    least: int = MANY_DEAD_ROWS,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Tables with `least` dead rows that outnumber the living: name, dead, living, vacuumed_at."""
    return await fetch_rows(connection, "list_dead_rows", schema, least=least, limit=limit)


async def spent_days(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Days of history of `LARGE_DAY_BYTES` that rules of retention have emptied by half or more,
    and that nodes leave as they are: name, bytes, remaining runs, dropped_at.
    """
    return await fetch_rows(
        connection, "list_spent_days", schema, least=LARGE_DAY_BYTES, limit=limit
    )


async def swollen_indexes(
    connection: asyncpg.Connection,
    *,
    least: int = LARGE_INDEX_BYTES,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Indexes of `least` bytes that are mostly empty: name, bytes, entries."""
    return await fetch_rows(
        connection,
        "list_swollen_indexes",
        schema,
        least=least,
        bytes_an_entry=MOST_BYTES_AN_ENTRY,
        limit=limit,
    )


async def risks(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Overflow rows, at-most-once work, living nodes, the shortest lease, where partitions end."""
    (found,) = await fetch_rows(connection, "read_risks", schema)
    return found


async def zones(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> Row:
    """The version of tzdata that decides, and nodes with older ones."""
    (found,) = await fetch_rows(connection, "read_zones", schema, limit=limit)
    return found


async def unaccounted(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Fires of the last day that were decided and whose run is nowhere; there must be none."""
    return await fetch_rows(connection, "unaccounted", schema, at_most=limit)


async def wraparound(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Ages of the oldest transaction id: of our oldest table, of all here, and of all databases."""
    (found,) = await fetch_rows(connection, "read_wraparound", schema)
    return found


async def never_vacuumed(
    connection: asyncpg.Connection,
    *,
    least: int = MANY_DEAD_ROWS,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Tables that nobody ever vacuumed though much has changed: name, dead, inserted."""
    return await fetch_rows(
        connection,
        "list_never_vacuumed",
        schema,
        least=least,
        seconds=YOUNG_STATISTICS_SECONDS,
        limit=limit,
    )


async def partition_gaps(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Spans to come without a partition between others: relation, since, until."""
    return await fetch_rows(connection, "list_partition_gaps", schema, limit=limit)


async def stray_partitions(
    connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Partitions that are detached, or half so: relation, partition, low, high, was_ours,
    is_pending, is_outlived.
    """
    return await fetch_rows(connection, "stray_partitions", schema)


async def excess_privileges(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Rights that nobody should have, and what is not its owner's: kind, name, who,
    remedy (where kind, name and who do not tell it).
    """
    return await fetch_rows(
        connection, "list_privileges_excess", schema, known=list(FOR_EVERYBODY), limit=limit
    )


async def role(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Who asks: name, whether it is a superuser, has the rights of the owner, is told of others."""
    (found,) = await fetch_rows(connection, "read_role", schema)
    return found


async def notification_queue(
    connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA
) -> Row:
    """How full the server's queue of notifications is, and the oldest open transactions."""
    (found,) = await fetch_rows(connection, "read_notification_queue", schema)
    return found


async def lock_holders(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Who holds our advisory locks for long: name, process_id, seconds."""
    return await fetch_rows(
        connection, "list_lock_holders", schema, seconds=LONG_LOCK_SECONDS, limit=limit
    )
