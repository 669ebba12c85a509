"""``pgcron-ha retention``: list and set how long records are kept."""

from __future__ import annotations

from typing import Any, Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import Column, echo, json_option, limit_option, print_json, print_rows
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.config.values import format_duration
from pgcron_ha.db.commands import retention
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.run import RunOutcome

COLUMNS: Final = (
    Column("WHAT", "scope", 60),
    Column("KEPT FOR", "kept_for"),
    Column("SET BY", "set_by", 16),
    Column("SINCE", "set_at"),
)
_TABLES: Final = ("occurrence", "history", "attempt", "log")

_queue = click.option("--queue", metavar="QUEUE", help="Runs of this queue; else of every queue.")
_outcome = click.option(
    "--outcome",
    type=click.Choice([outcome.value for outcome in RunOutcome]),
    help="Runs that ended so; else however.",
)


@click.group("retention")
def retention_group() -> None:
    """Say how long records are kept."""


@retention_group.command("list")
@limit_option()
@json_option
def list_command(limit: int, as_json: bool) -> None:
    """List what is kept for how long: tables, then rules, the first that fits counts."""
    rows = on_database(lambda s: retention.retention(s.connection, limit=limit, schema=s.schema))
    if not as_json:
        rows = [
            {**row, "scope": retention.scope_words(row), "kept_for": _kept(row)} for row in rows
        ]
    print_rows(rows, COLUMNS, as_json, "no tables")


@retention_group.command("set", short_help="Keep ended runs for DURATION after their end.")
@click.argument("duration")
@_queue
@_outcome
@click.option("--table", type=click.Choice(_TABLES), help="All that this table has.")
@json_option
def set_command(
    duration: str, queue: str | None, outcome: str | None, table: str | None, as_json: bool
) -> None:
    """Keep ended runs for DURATION after their end, such as 7d; not longer than all of history.

    The most specific rule counts: queue and outcome, queue, outcome, neither. What is over is
    removed within the hour, in whole days. Dead letters stay until somebody handles them.
    """
    keep = arguments.duration("DURATION", duration)
    assert keep is not None
    if table is not None and (queue or outcome):
        raise InvalidInput(
            "--table is given with --queue or --outcome",
            "A table is kept as a whole; rules are about ended runs.",
            "Leave --table out for a rule.",
        )

    async def put(session: Session) -> None:
        connection, schema = session.connection, session.schema
        if table is not None:
            await retention.set_table_retention(connection, table, keep, schema=schema)
        else:
            await retention.set_retention(
                connection,
                keep,
                queue=queue,
                outcome=outcome,
                actor=session.actor,
                schema=schema,
            )

    on_database(put)
    row = {"relation": table, "queue": queue, "outcome": outcome}
    if as_json:
        print_json({**row, "keep": keep})
    else:
        verb = "is" if table else "are"
        echo(f"{retention.scope_words(row)} {verb} kept for {format_duration(_seconds(keep))}")


@retention_group.command("delete")
@_queue
@_outcome
@json_option
def delete_command(queue: str | None, outcome: str | None, as_json: bool) -> None:
    """Delete a rule: the next less specific one counts, or history's own."""
    on_database(
        lambda s: retention.delete_retention(
            s.connection, queue=queue, outcome=outcome, schema=s.schema
        )
    )
    row = {"relation": None, "queue": queue, "outcome": outcome}
    if as_json:
        print_json({**row, "keep": None})
    else:
        echo(f"there is no rule for {retention.scope_words(row)} any more")


def _kept(row: dict[str, Any]) -> str:
    if row["in_force"] < row["keep"]:
        in_force = format_duration(_seconds(row["in_force"]))
        return f"{format_duration(_seconds(row['keep']))}, but history for {in_force}"
    return format_duration(_seconds(row["keep"]))


def _seconds(keep: Any) -> float:
    return float(keep.total_seconds())
