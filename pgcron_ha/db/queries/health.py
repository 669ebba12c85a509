"""What `pgcron-ha doctor` asks: the statements of ``sql/health.sql``, which change nothing."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

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
# Younger statistics do not show that a table was never vacuumed.
YOUNG_STATISTICS_SECONDS: Final = 86_400.0
# Functions with the owner's rights that all roles may call: each checks the caller.
FOR_EVERYBODY: Final = ("run_status", "live_state", "await_runs", "judge_guest")


server: Final = Rows("read_server").the
"""Version, clock, and the settings that work or safety depend on."""

snapshot_holders: Final = Rows(
    "list_snapshot_holders",
    age=OLD_SNAPSHOT_TRANSACTIONS,
    seconds=LONG_TRANSACTION_SECONDS,
    limit=DEFAULT_LIMIT,
)
"""Holders that keep dead rows: kind, name, age in transactions, seconds, other_database (None: it
is in this one); the oldest first.
"""

idle_slots: Final = Rows("list_idle_slots", least=MUCH_LOG_BYTES, limit=DEFAULT_LIMIT)
"""Replication slots that nobody reads, and that keep much of the log: name, bytes."""

tables_without_autovacuum: Final = Rows("list_tables_without_autovacuum", limit=DEFAULT_LIMIT)
"""Tables of the schema for which somebody turned autovacuum off: name, option."""

broken_indexes: Final = Rows("list_broken_indexes", limit=DEFAULT_LIMIT)
"""Indexes of the schema that no statement uses: name, relation, has_partitions."""

dead_rows: Final = Rows("list_dead_rows", least=MANY_DEAD_ROWS, limit=DEFAULT_LIMIT)
"""Tables with ``least`` dead rows that outnumber the living: name, dead, living, vacuumed_at."""

spent_days: Final = Rows("list_spent_days", least=LARGE_DAY_BYTES, limit=DEFAULT_LIMIT)
"""Days of history of `LARGE_DAY_BYTES` that rules of retention have emptied by half or more, and
that nodes leave as they are: name, bytes, remaining runs, dropped_at.
"""

swollen_indexes: Final = Rows(
    "list_swollen_indexes",
    least=LARGE_INDEX_BYTES,
    bytes_an_entry=MOST_BYTES_AN_ENTRY,
    limit=DEFAULT_LIMIT,
)
"""Indexes of ``least`` bytes that are mostly empty: name, bytes, entries."""

risks: Final = Rows("read_risks").the
"""Overflow rows, at-most-once work, living nodes, the shortest lease, where partitions end."""

zones: Final = Rows("read_zones", limit=DEFAULT_LIMIT).the
"""The version of tzdata that decides, and nodes with older ones."""

unaccounted: Final = Rows("unaccounted", at_most=DEFAULT_LIMIT)
"""Fires of the last day that were decided and have no run; there must be none."""

wraparound: Final = Rows("read_wraparound").the
"""Ages of the oldest transaction id: of the schema's oldest table, and of all databases."""

never_vacuumed: Final = Rows(
    "list_never_vacuumed",
    least=MANY_DEAD_ROWS,
    seconds=YOUNG_STATISTICS_SECONDS,
    limit=DEFAULT_LIMIT,
)
"""Tables that nobody ever vacuumed though much has changed: name, dead, inserted."""

partition_gaps: Final = Rows("list_partition_gaps", limit=DEFAULT_LIMIT)
"""Spans to come without a partition between others: relation, since, until."""

stray_partitions: Final = Rows("stray_partitions")
"""Partitions that are detached, or half so: relation, partition, low, high, was_ours, is_pending,
is_outlived.
"""

excess_privileges: Final = Rows(
    "list_privileges_excess", known=list(FOR_EVERYBODY), limit=DEFAULT_LIMIT
)
"""Excess privileges, and objects with the wrong owner: kind, name, who, remedy (if kind, name and
who do not imply it).
"""

role: Final = Rows("read_role").the
"""The caller's role: name, whether it is a superuser, has the owner's rights, can see others."""

notification_queue: Final = Rows("read_notification_queue").the
"""How full the server's queue of notifications is, and the oldest open transactions."""

lock_holders: Final = Rows("list_lock_holders", seconds=LONG_LOCK_SECONDS, limit=DEFAULT_LIMIT)
"""Sessions that hold our advisory locks for long: name, process_id, seconds."""

_ROWS: Final = {
    "role": role,
    "risks": risks,
    "zones": zones,
    "wraparound": wraparound,
    "notification_queue": notification_queue,
}
_LISTS: Final = {
    "snapshot_holders": snapshot_holders,
    "idle_slots": idle_slots,
    "tables_without_autovacuum": tables_without_autovacuum,
    "never_vacuumed": never_vacuumed,
    "dead_rows": dead_rows,
    "broken_indexes": broken_indexes,
    "swollen_indexes": swollen_indexes,
    "spent_days": spent_days,
    "partition_gaps": partition_gaps,
    "stray_partitions": stray_partitions,
    "excess_privileges": excess_privileges,
    "lock_holders": lock_holders,
    "unaccounted": unaccounted,
}


async def readings(
    connection: asyncpg.Connection, *, schema: str = DEFAULT_SCHEMA
) -> dict[str, Any]:
    """What the doctor reads, by name: a row, or the rows of a list, each of which is a finding."""
    found: dict[str, Any] = {}
    for name, read in _ROWS.items():
        found[name] = await read(connection, schema=schema)
    for name, query in _LISTS.items():
        found[name] = await query(connection, schema=schema)
    return found
