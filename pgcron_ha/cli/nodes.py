"""``pgcron-ha nodes``: the nodes, their leases and what they offer; which of them take runs."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    limit_option,
    plural,
    print_json,
    print_rows,
)
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.db.commands import cordons
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.unresponsive_runs import unresponsive_words
from pgcron_ha.errors import WaitTimedOut

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
_LOOK_SECONDS: Final = 0.25


@click.group("nodes", invoke_without_command=True)
@click.option("--all", "also_dead", is_flag=True, help="Also dead nodes, for a day.")
@limit_option()
@json_option
@click.pass_context
def nodes_group(context: click.Context, also_dead: bool, limit: int, as_json: bool) -> None:
    """List the nodes and their leases; cordon, drain and uncordon them."""
    if context.invoked_subcommand is not None:
        return
    rows = on_database(
        lambda s: overview.nodes(s.connection, also_dead=also_dead, limit=limit, schema=s.schema)
    )
    if not as_json:
        rows = [with_shown_columns(row) for row in rows]
    print_rows(rows, COLUMNS, as_json, "no nodes")
    if not as_json:
        for row in rows:
            if row["unresponsive_runs"]:
                echo(f"node '{row['name']}': {unresponsive_words(row['unresponsive_runs'])}")
            if row["state"] != "dead" and (row["tzdata"] or "") < (row["cluster_tzdata"] or ""):
                echo(
                    f"node '{row['name']}' has tzdata {row['tzdata']}, the cluster "
                    f"{row['cluster_tzdata']}: it materializes no schedules; "
                    "upgrade its tzdata package"
                )


@nodes_group.command("cordon")
@click.argument("node")
@click.option("--reason", help="Why; shown wherever the node is.")
@json_option
def cordon_command(node: str, reason: str | None, as_json: bool) -> None:
    """Let NODE take nothing new; what it holds goes on.

    NODE is a name, for all its processes until it is lifted, also after a restart, or the
    incarnation of one process.
    """
    living, runs = on_database(lambda s: _cordon(s, node, reason))
    _say(node, living, runs, as_json)


@nodes_group.command("uncordon")
@click.argument("node")
@json_option
def uncordon_command(node: str, as_json: bool) -> None:
    """Let NODE (a name, or an incarnation) take runs again."""
    living = on_database(
        lambda s: cordons.uncordon_node(s.connection, node, actor=s.actor, schema=s.schema)
    )
    if as_json:
        print_json({"node": node, "is_cordoned": False, "living": living})
    else:
        echo(f"node '{node}' takes runs again ({_processes(living)})")


@nodes_group.command("drain")
@click.argument("node")
@click.option("--reason", help="Why; shown wherever the node is.")
@click.option("--wait", is_flag=True, help="Until it holds no run any more.")
@click.option("--timeout", metavar="DURATION", help="With --wait: fail after so long.")
@json_option
def drain_command(
    node: str, reason: str | None, wait: bool, timeout: str | None, as_json: bool
) -> None:
    """Cordon NODE, and tell when it holds no run any more.

    With --wait the exit status is 0 as soon as it holds none. The node stays cordoned, and its
    processes live, idle, until somebody stops them.
    """
    seconds = arguments.duration("--timeout", timeout)
    if seconds is not None and not wait:
        raise click.UsageError("--timeout says how long --wait waits")
    most = None if seconds is None else seconds.total_seconds()
    living, runs = on_database(lambda s: _drain(s, node, reason, wait, most))
    _say(node, living, runs, as_json)


async def _cordon(session: Session, node: str, reason: str | None) -> tuple[int, int]:
    connection, schema = session.connection, session.schema
    living = await cordons.cordon_node(connection, node, reason, actor=session.actor, schema=schema)
    return living, await cordons.held_by_node(connection, node, schema=schema)


async def _drain(
    session: Session, node: str, reason: str | None, wait: bool, most: float | None
) -> tuple[int, int]:
    end = None if most is None else time.monotonic() + most
    living, runs = await _cordon(session, node, reason)
    while wait and runs:
        if end is not None and time.monotonic() >= end:
            raise WaitTimedOut(
                f"node '{node}' still holds {runs} run{'s' if runs > 1 else ''}",
                "It is cordoned and takes nothing new; what it holds ends in its own time.",
                "Wait again, or cancel them: `pgcron-ha runs list` names them.",
            )
        await asyncio.sleep(_LOOK_SECONDS)
        runs = await cordons.held_by_node(session.connection, node, schema=session.schema)
    return living, runs


def _say(node: str, living: int, runs: int, as_json: bool) -> None:
    if as_json:
        print_json({"node": node, "is_cordoned": True, "living": living, "runs": runs})
        return
    held = f"holds {runs} run{'s' if runs > 1 else ''}" if runs else "holds no run"
    echo(f"node '{node}' takes nothing new and {held} ({_processes(living)})")


def _processes(count: int) -> str:
    return plural(count, "living process", "living processes")


def with_shown_columns(row: overview.Row) -> overview.Row:
    """The row with what tables show: ``shown_state``, ``shown_slots``, ``shown_labels``."""
    is_silent = row["state"] != "dead" and not row["has_lease"]
    return {
        **row,
        "shown_state": f"{row['state']}, silent" if is_silent else row["state"],
        "shown_slots": f"{row['slots_used']}/{row['slots']}",
        "shown_labels": [f"{key}={value}" for key, value in row["labels"].items()],
    }
