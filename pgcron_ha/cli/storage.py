"""``pgcron-ha storage``: how large the tables are, how fast they grow, when their partitions go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import columns, echo, print_rows
from pgcron_ha.cli.session import Session
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.db.queries import storage
from pgcron_ha.db.queries.health import role, snapshot_holders
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.errors import NotFound
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
# Of a table what pages show, of a partition what its table has.
_NOT_SHOWN: Final = frozenset({"parts", "comes_to", "has_dead_rows", "relation", "keep", "recent"})


@click.command("storage", cls=arguments.JsonCommand)
@click.argument("table", required=False)
async def storage_command(session: Session, table: str | None) -> None:
    """Show how large the tables are, how fast they grow and who keeps dead rows in them.

    With TABLE its partitions, and when retention drops each. Rows are the server's estimates, no
    table is read; sizes are bytes in JSON. A day: by the partitions of the last seven.
    """
    found = await session.call(storage.tables)
    if table is not None:
        print_rows(_shown(_named(found, table)["parts"]), PARTS, "no partitions")
        return
    print_rows(_shown(found), TABLES, "no tables")
    total, growth = (sum(each[key] or 0 for each in found) for key in ("total", "a_day"))
    echo(f"\n{in_bytes(total)} in all, {in_bytes(growth)} more a day")
    for holder in await session.call(snapshot_holders):
        echo(f"old snapshot: {holder['kind']} {holder['name']}, {holder['age']} transactions old")
    if not (await session.call(role))["sees_all"]:
        echo("snapshots of other roles are not shown: that needs pg_read_all_stats")


def _named(tables: Sequence[Row], name: str) -> Row:
    by_name = {table["table"]: table for table in tables}
    if name not in by_name:
        raise NotFound(
            f"table '{name[:200]}' does not exist{did_you_mean(name[:100], by_name, 0.4)}",
            "A table is named without its schema; partitions are listed with their table.",
            "`pgcron-ha storage` lists them.",
        )
    return by_name[name]


def _shown(rows: Sequence[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in _NOT_SHOWN} for row in rows]
