"""What `pgcron-ha doctor` asks: the statements of ``sql/health.sql``, which change nothing."""

from __future__ import annotations

from typing import Any, Final

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

ROWS: Final = {
    "role": "read_role",
    "risks": "read_risks",
    "zones": "read_zones",
    "wraparound": "read_wraparound",
    "notification_queue": "read_notification_queue",
}
"""What the doctor reads as one row, by statement."""

LISTS: Final = {
    "snapshot_holders": "list_snapshot_holders",
    "idle_slots": "list_idle_slots",
    "tables_without_autovacuum": "list_tables_without_autovacuum",
    "never_vacuumed": "list_never_vacuumed",
    "dead_rows": "list_dead_rows",
    "broken_indexes": "list_broken_indexes",
    "swollen_indexes": "list_swollen_indexes",
    "spent_days": "list_spent_days",
    "partition_gaps": "list_partition_gaps",
    "stray_partitions": "stray_partitions",
    "excess_privileges": "list_privileges_excess",
    "lock_holders": "list_lock_holders",
    "unaccounted": "unaccounted",
}
"""What it reads as many rows, each of which is a finding."""


async def server(connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Version, clock, and the settings that work or safety depend on."""
    (found,) = await health_rows(connection, "read_server", schema=schema)
    return found


async def readings(
    connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA
) -> dict[str, Any]:
    """By the names of `ROWS` and `LISTS` what their statements answer."""
    found: dict[str, Any] = {}
    for name, statement in ROWS.items():
        (found[name],) = await health_rows(connection, statement, schema=schema)
    for name, statement in LISTS.items():
        found[name] = await health_rows(connection, statement, schema=schema)
    return found


async def health_rows(
    connection: asyncpg.Connection,
    statement: str,
    *,
    schema: str = DEFAULT_SCHEMA,
    **values: object,
) -> list[Row]:
    """The rows of one of the statements, by the thresholds above or by other `values`."""
    usual: dict[str, dict[str, object]] = {
        "list_snapshot_holders": {
            "age": OLD_SNAPSHOT_TRANSACTIONS,
            "seconds": LONG_TRANSACTION_SECONDS,
        },
        "list_idle_slots": {"least": MUCH_LOG_BYTES},
        "list_dead_rows": {"least": MANY_DEAD_ROWS},
        "list_spent_days": {"least": LARGE_DAY_BYTES},
        "list_swollen_indexes": {
            "least": LARGE_INDEX_BYTES,
            "bytes_an_entry": MOST_BYTES_AN_ENTRY,
        },
        "list_never_vacuumed": {"least": MANY_DEAD_ROWS, "seconds": YOUNG_STATISTICS_SECONDS},
        "list_privileges_excess": {"known": list(FOR_EVERYBODY)},
        "list_lock_holders": {"seconds": LONG_LOCK_SECONDS},
        "unaccounted": {"at_most": DEFAULT_LIMIT},
    }
    given = {"limit": DEFAULT_LIMIT, **usual.get(statement, {}), **values}
    return await fetch_rows(connection, statement, schema, **given)
