"""``pgcron-ha nodes``: the nodes, their leases and what they offer."""

from __future__ import annotations

import click

from pgcron_ha.cli.output import Column, json_option, limit_option, print_rows
from pgcron_ha.cli.session import on_database
from pgcron_ha.db import overview

COLUMNS = (
    Column("NODE", "name", 16),
    Column("STATE", "shown_state", 14),
    Column("HOST", "host", 14),
    Column("PID", "process_id"),
    Column("SLOTS", "shown_slots"),
    Column("QUEUES", "queues", 14),
    Column("HANDLERS", "handlers", 40),
    Column("LABELS", "shown_labels", 30),
)


@click.command("nodes")
@click.option("--all", "also_dead", is_flag=True, help="Also dead nodes, for a day.")
@limit_option()
@json_option
def nodes_command(also_dead: bool, limit: int, as_json: bool) -> None:
    """List the nodes and their leases."""
    rows = on_database(
        lambda s: overview.nodes(s.connection, also_dead=also_dead, limit=limit, schema=s.schema)
    )
    if not as_json:
        rows = [_with_shown_columns(row) for row in rows]
    print_rows(rows, COLUMNS, as_json, "no nodes")


def _with_shown_columns(row: overview.Row) -> overview.Row:
    is_silent = row["state"] != "dead" and not row["has_lease"]
    return {
        **row,
        "shown_state": f"{row['state']}, silent" if is_silent else row["state"],
        "shown_slots": f"{row['slots_used']}/{row['slots']}",
        "shown_labels": [f"{key}={value}" for key, value in row["labels"].items()],
    }
