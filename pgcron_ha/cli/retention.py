"""``pgcron-ha retention``: list and set how long records are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import click

from pgcron_ha.cli.arguments import DURATION, JsonGroup, limit_option, option
from pgcron_ha.cli.output import columns, print_result, print_rows, shown
from pgcron_ha.cli.session import act, call
from pgcron_ha.db.commands import cluster
from pgcron_ha.model.run import RunOutcome


def _kept(row: dict[str, Any]) -> str:
    if row["in_force"] < row["keep"]:
        return f"{shown(row['keep'])}, but history for {shown(row['in_force'])}"
    return shown(row["keep"])


COLUMNS: Final = columns(
    "WHAT:60 KEPT_FOR SET_BY:16 SINCE=set_at", WHAT=cluster.scope_words, KEPT_FOR=_kept
)
_TABLES: Final = ("occurrence", "history", "attempt", "log", "audit")

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
    print_rows(call(cluster.retention, limit=limit), COLUMNS, "no tables")


@retention_group.command("set")
@click.argument("duration", type=DURATION)
@_queue
@_outcome
@option("--table", "All rows of this table.", _TABLES)
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
