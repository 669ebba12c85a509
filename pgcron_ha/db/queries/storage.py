"""Table sizes: the statements of ``sql/storage.sql``, and the holders of old snapshots."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pgcron_ha.db.driver.statements import literal
from pgcron_ha.db.queries.health import snapshot_holders
from pgcron_ha.db.queries.rows import Query, Row
from pgcron_ha.model.storage import TableSize, tables_of


class Storage(NamedTuple):
    """The tables, the largest first, and the holders of snapshots, the oldest first."""

    tables: tuple[TableSize, ...]
    holders: list[Row]
    """Each with kind, name, age in transactions and seconds (None: not known)."""
    sees_all: bool
    """Whether the role can see other roles' snapshots."""


_role: Final = Query("read_role").the
# Ten years of daily partitions of each table that has them.
_sizes: Final = Query("list_table_sizes", limit=15_000)


async def tables(connection: Any, **options: Any) -> tuple[TableSize, ...]:
    """Every table of the schema with its partitions, the largest first."""
    return tables_of(await _sizes(connection, **options))


async def storage(connection: Any, **options: Any) -> Storage:
    """All of it; reads the catalog and statistics, and no row of the tables."""
    role = await _role(connection, **options)
    holders = await snapshot_holders(connection, **options)
    return Storage(await tables(connection, **options), holders, role["sees_all"])


def release_words(holder: Row) -> str:
    """What ends the snapshot of a row of `Storage.holders`: a statement, or what to do there."""
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
