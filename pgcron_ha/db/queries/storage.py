"""Table sizes: the statements of ``sql/storage.sql``, and what ends an old snapshot."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.statements import literal
from pgcron_ha.db.queries.rows import Query, Row
from pgcron_ha.model.storage import tables_of

# Ten years of daily partitions of each table that has them.
_sizes: Final = Query("list_table_sizes", limit=15_000)


async def tables(connection: Any, **options: Any) -> list[Row]:
    """Every table of the schema with its partitions, as `tables_of`; reads the catalog and
    statistics, and no row of the tables.
    """
    return tables_of(await _sizes(connection, **options))


def release_words(holder: Row) -> str:
    """What ends the snapshot of a row of `snapshot_holders`: a statement, or what to do there."""
    name = str(holder["name"])
    match holder["kind"]:
        case "transaction":
            return f"SELECT pg_terminate_backend({name.partition(' ')[0]});"
        case "prepared transaction":
            other = holder["other_database"]
            there = "" if other is None else f"in database {other}: "
            return f"{there}ROLLBACK PREPARED {literal(name)};"
        case "replication slot" | "logical slot":
            return f"SELECT pg_drop_replication_slot({literal(name)});"
        case "subscriber of slot":
            return "see why it does not follow; without it, drop the slot"
        case _:
            return "end the long query there, or switch its hot_standby_feedback off"
