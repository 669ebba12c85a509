"""``pgcron-ha storage``: how large the tables are, how fast they grow, when their partitions go;
``retention``: list and set how long records are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import click

from pgcron_ha.cli.arguments import DURATION, JsonCommand, JsonGroup, limit_option, option
from pgcron_ha.cli.output import columns, echo, print_result, print_rows, shown
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.db.commands import cluster
from pgcron_ha.db.queries import health
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.errors import NotFound
from pgcron_ha.model.run import RunOutcome
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


@click.command("storage", cls=JsonCommand)
@click.argument("table", required=False)
async def storage_command(session: Session, table: str | None) -> None:
    """Show how large the tables are, how fast they grow and who keeps dead rows in them.

    With TABLE its partitions, and when retention drops each. Rows are the server's estimates, no
    table is read; sizes are bytes in JSON. A day: by the partitions of the last seven.
    """
    found = await session.call(health.tables)
    if table is not None:
        print_rows(_shown(_named(found, table)["parts"]), PARTS, "no partitions")
        return
    print_rows(_shown(found), TABLES, "no tables")
    total, growth = (sum(each[key] or 0 for each in found) for key in ("total", "a_day"))
    echo(f"\n{in_bytes(total)} in all, {in_bytes(growth)} more a day")
    for holder in await session.call(health.snapshot_holders):
        echo(f"old snapshot: {holder['kind']} {holder['name']}, {holder['age']} transactions old")
    if not (await session.call(health.role))["sees_all"]:
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


def _kept(row: dict[str, Any]) -> str:
    if row["in_force"] < row["keep"]:
        return f"{shown(row['keep'])}, but history for {shown(row['in_force'])}"
    return shown(row["keep"])


_RULES: Final = columns(
    "WHAT:60 KEPT_FOR SET_BY:16 SINCE=set_at", WHAT=cluster.scope_words, KEPT_FOR=_kept
)
_KEPT_TABLES: Final = ("occurrence", "history", "attempt", "log", "audit")

_queue = option("--queue QUEUE", "Runs of this queue; else of every queue.")
_OUTCOMES: Final = tuple(outcome.value for outcome in RunOutcome)
_outcome = option("--outcome", "Runs with this outcome; else with any.", _OUTCOMES)


@click.group("retention", cls=JsonGroup)
def retention_group() -> None:
    """Show and set how long records are kept."""


@retention_group.command("list")
@limit_option()
def list_command(limit: int) -> None:
    """List what is kept for how long.

    Tables, then rules: the first that fits counts.
    """
    print_rows(call(cluster.retention, limit=limit), _RULES, "no tables")


@retention_group.command("set")
@click.argument("duration", type=DURATION)
@_queue
@_outcome
@option("--table", "All rows of this table.", _KEPT_TABLES)
def set_command(duration: timedelta, table: str | None, **rule: str | None) -> None:
    """Keep ended runs for DURATION after their end.

    DURATION is such as 7d, and not longer than all of history is kept. The most specific rule
    counts: queue and outcome, queue, outcome, neither. What is over is removed within the hour, in
    whole days. Dead letters stay until they are closed, and then as long as history.
    """
    if table is None:
        act(cluster.set_retention, duration, **rule)
    elif any(rule.values()):
        raise click.UsageError("--table is given with --queue or --outcome: it is kept whole")
    else:
        act(cluster.set_table_retention, table, duration)
    row = {"relation": table, **rule}
    kept = f"{'is' if table else 'are'} kept for {shown(duration)}"
    print_result({**row, "keep": duration}, f"{cluster.scope_words(row)} {kept}")


@retention_group.command("delete")
@_queue
@_outcome
def delete_command(**rule: str | None) -> None:
    """Delete a rule.

    The next less specific one counts then, or history's own.
    """
    act(cluster.delete_retention, **rule)
    row = {"relation": None, **rule}
    gone = f"there is no rule for {cluster.scope_words(row)} any more"
    print_result({**row, "keep": None}, gone)
