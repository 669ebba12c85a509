"""``pgcron-ha storage``: how large the tables are, how fast they grow, when their partitions go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import columns, echo, print_rows
from pgcron_ha.cli.session import Session
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.storage import storage
from pgcron_ha.errors import NotFound
from pgcron_ha.model.storage import NUMBERS, Part, Size, TableSize, total_growth
from pgcron_ha.spec.text import in_bytes


def _size(key: str) -> Callable[[dict[str, Any]], str | None]:
    return lambda row: None if row[key] is None else in_bytes(row[key])


_SIZES: Final = {
    name.upper(): _size(name) for name in ("heap", "indexes", "toast", "total", "a_day")
}
TABLES: Final = columns(
    "TABLE PARTITIONS ROWS DEAD HEAP INDEXES TOAST TOTAL A_DAY KEPT VACUUMED=vacuumed_at", **_SIZES
)
PARTS: Final = columns(
    "PARTITION FROM BEFORE ROWS DEAD HEAP INDEXES TOAST TOTAL VACUUMED=vacuumed_at"
    " DROPPED=dropped_at",
    **_SIZES,
)


@click.command("storage", cls=arguments.JsonCommand)
@click.argument("table", required=False)
async def storage_command(session: Session, table: str | None) -> None:
    """Show how large the tables are, how fast they grow and who keeps dead rows in them.

    With TABLE its partitions, and when retention drops each. Rows are the server's estimates, no
    table is read; sizes are bytes in JSON. A day: by the partitions of the last seven.
    """
    now = await session.call(overview.database_time)
    found = await session.call(storage)
    if table is not None:
        rows = [_part(part) for part in _named(found.tables, table).parts]
        print_rows(rows, PARTS, "no partitions")
        return
    rows = [_table(each, now) for each in found.tables]
    print_rows(rows, TABLES, "no tables")
    growth = in_bytes(total_growth(found.tables, now))
    echo(f"\n{in_bytes(sum(t.total for t in found.tables))} in all, {growth} more a day")
    for holder in found.holders:
        echo(f"old snapshot: {holder['kind']} {holder['name']}, {holder['age']} transactions old")
    if not found.sees_all:
        echo("snapshots of other roles are not shown: that needs pg_read_all_stats")


def _named(tables: Sequence[TableSize], name: str) -> TableSize:
    by_name = {table.name: table for table in tables}
    if name not in by_name:
        raise NotFound(
            f"table '{name[:200]}' does not exist{did_you_mean(name[:100], by_name, 0.4)}",
            "A table is named without its schema; partitions are listed with their table.",
            "`pgcron-ha storage` lists them.",
        )
    return by_name[name]


def _measured(size: Size) -> dict[str, Any]:
    return {name: getattr(size, name) for name in (*NUMBERS, "total", "vacuumed_at")}


def _table(table: TableSize, now: datetime) -> dict[str, Any]:
    growth = table.growth(now)
    return {
        "table": table.name,
        "partitions": len(table.parts) if table.is_partitioned else None,
        **_measured(table),
        "a_day": None if growth is None else round(growth),
        "kept": table.keep,
    }


def _part(part: Part) -> dict[str, Any]:
    bounds = {"partition": part.name, "from": part.low, "before": part.high}
    return {**bounds, **_measured(part), "dropped_at": part.dropped_at}
