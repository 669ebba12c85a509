"""``pgcron-ha dead``: runs that ended dead or lost, and sending them again."""

from __future__ import annotations

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import Column, json_option, limit_option, print_json, print_rows
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.db import doors, overview

COLUMNS = (
    Column("RUN", "run_id"),
    Column("HANDLER", "handler", 24),
    Column("SCHEDULE", "schedule", 16),
    Column("OUTCOME", "outcome"),
    Column("DIED", "died_at"),
    Column("AGAIN AS", "requeued_as"),
    Column("ERROR", "error", 36),
)
# Each is locked until all are sent; more belong into several calls.
MOST_AT_ONCE = 1000


@click.group("dead")
def dead_group() -> None:
    """List dead letters and send them again."""


@dead_group.command("list")
@click.option("--handler", help="Dead letters of this handler.")
@click.option("--all", "also_redriven", is_flag=True, help="Also those that were sent again.")
@limit_option()
@json_option
def list_command(handler: str | None, also_redriven: bool, limit: int, as_json: bool) -> None:
    """List dead letters, newest first."""
    rows = on_database(
        lambda s: overview.dead_letters(
            s.connection,
            handler=handler,
            also_redriven=also_redriven,
            limit=limit,
            schema=s.schema,
        )
    )
    print_rows(rows, COLUMNS, as_json, "no dead letters")


@dead_group.command("redrive")
@click.argument("run_ids", type=arguments.RUN_ID, nargs=-1, required=True, metavar="RUN_ID...")
@json_option
def redrive_command(run_ids: tuple[int, ...], as_json: bool) -> None:
    """Send dead letters again as new runs: all of those named, or none."""
    if len(run_ids) > MOST_AT_ONCE:
        raise click.UsageError(f"at most {MOST_AT_ONCE} dead letters at once")

    async def redrive(session: Session) -> list[int]:
        async with session.connection.transaction():
            return [
                await doors.redrive(
                    session.connection, run_id, actor=session.actor, schema=session.schema
                )
                for run_id in run_ids
            ]

    for run_id, new_id in zip(run_ids, on_database(redrive), strict=True):
        if as_json:
            print_json({"dead_letter": run_id, "run_id": new_id})
        else:
            click.echo(f"dead letter {run_id} runs again as run {new_id}")
