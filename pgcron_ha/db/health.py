"""What `pgcron-ha doctor` asks: the statements of ``sql/health.sql``, which change nothing."""

from __future__ import annotations

from typing import Final

import asyncpg

from pgcron_ha.db.overview import DEFAULT_LIMIT, Row, fetch_rows
from pgcron_ha.db.statements import DEFAULT_SCHEMA

# Past these a snapshot is felt: claims walk over the dead rows of that many transactions.
OLD_SNAPSHOT_TRANSACTIONS: Final = 1_000_000
LONG_TRANSACTION_SECONDS: Final = 300.0


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
    """Who keeps dead rows alive: kind, name, age in transactions, seconds; the oldest first."""
    return await fetch_rows(
        connection,
        "list_snapshot_holders",
        schema,
        age=OLD_SNAPSHOT_TRANSACTIONS,
        seconds=LONG_TRANSACTION_SECONDS,
        limit=limit,
    )


async def tables_without_autovacuum(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[str]:
    """Tables of the schema for which somebody turned autovacuum off."""
    found = await fetch_rows(connection, "list_tables_without_autovacuum", schema, limit=limit)
    return [row["name"] for row in found]


async def risks(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Overflow rows, at-most-once work, living nodes, the shortest lease, where partitions end."""
    (found,) = await fetch_rows(connection, "read_risks", schema)
    return found


async def unaccounted(
    connection: asyncpg.Connection, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Fires of the last day that were decided and whose run is nowhere; there must be none."""
    return await fetch_rows(connection, "unaccounted", schema, at_most=limit)
