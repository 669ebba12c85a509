"""``pgcron-ha nodes``: the nodes, their leases and what they offer; which of them take runs."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import timedelta
from typing import Final

import click

from pgcron_ha.cli.arguments import DURATION, JsonGroup, flag, limit_option, option
from pgcron_ha.cli.output import columns, echo, plural, print_result, print_rows
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.db.commands import cluster
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.node_health import unresponsive_words
from pgcron_ha.errors import WaitTimedOut


def state_of(row: overview.Row) -> str:
    """Of its row, and whether its lease ran out."""
    is_silent = row["state"] != "dead" and not row["has_lease"]
    return f"{row['state']}, silent" if is_silent else str(row["state"])


def slots_of(row: overview.Row) -> str:
    """Those that are used, of how many."""
    return f"{row['slots_used']}/{row['slots']}"


COLUMNS: Final = columns(
    "NODE=name:16 STATE:14 HOST:14 PID=process_id SLOTS QUEUES:14 HANDLERS LABELS:30",
    STATE=state_of,
    SLOTS=slots_of,
    LABELS=lambda row: [f"{key}={value}" for key, value in row["labels"].items()],
)
_LOOK_SECONDS: Final = 0.25
_note = option("--note", "Why; shown with the node.")


@click.group("nodes", cls=JsonGroup)
def nodes_group() -> None:
    """List the nodes and their leases; cordon, drain and uncordon them."""


@nodes_group.command("list")
@flag("--all", "Also dead nodes, for a day.", "also_dead")
@limit_option()
def list_command(also_dead: bool, limit: int) -> None:
    """List the nodes with their leases, slots and handlers."""
    rows = call(overview.nodes, is_dead=None if also_dead else False, limit=limit)
    print_rows(rows, COLUMNS, "no nodes")
    for row in rows:
        if row["unresponsive_runs"]:
            echo(f"node '{row['name']}': {unresponsive_words(row['unresponsive_runs'])}")
        if row["state"] != "dead" and (row["tzdata"] or "") < (row["cluster_tzdata"] or ""):
            echo(
                f"node '{row['name']}' has tzdata {row['tzdata']}, the cluster "
                f"{row['cluster_tzdata']}: it materializes no schedules; upgrade its tzdata package"
            )


@nodes_group.command("cordon")
@click.argument("node")
@_note
async def cordon_command(session: Session, node: str, note: str | None) -> None:
    """Let NODE take nothing new; what it holds goes on.

    NODE is a name, for all its processes until it is lifted, also after a restart, or the
    incarnation of one process.
    """
    await _cordon(session, node, note)


@nodes_group.command("uncordon")
@click.argument("node")
def uncordon_command(node: str) -> None:
    """Let NODE (a name, or an incarnation) take runs again."""
    living = act(cluster.uncordon_node, node)
    print_result(
        {"node": node, "is_cordoned": False, "living": living},
        f"node '{node}' takes runs again ({_processes(living)})",
    )


@nodes_group.command("drain")
@click.argument("node")
@_note
@flag("--wait", "Until it holds no run any more.")
@option("--timeout", "With --wait: fail after this time.", DURATION)
async def drain_command(
    session: Session, node: str, note: str | None, wait: bool, timeout: timedelta | None
) -> None:
    """Cordon NODE, and report when it holds no run any more.

    With --wait the exit code is 0 as soon as it holds none. The node stays cordoned, and its
    processes live, idle, until somebody stops them.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout says how long --wait waits")
    most = 0.0 if not wait else math.inf if timeout is None else timeout.total_seconds()
    await _cordon(session, node, note, most)


async def _cordon(session: Session, node: str, note: str | None, most: float = 0.0) -> None:
    """Cordon it, and wait up to `most` seconds until it holds no run; raises WaitTimedOut."""
    end = time.monotonic() + most
    living = await session.act(cluster.cordon_node, node, note)
    while (runs := await session.call(cluster.held_by_node, node)) and most:
        if time.monotonic() >= end:
            raise WaitTimedOut(
                f"node '{node}' still holds {plural(runs, 'run')}",
                "It is cordoned and takes nothing new; what it holds ends in its own time.",
                "Wait again, or cancel them: `pgcron-ha runs list` names them.",
            )
        await asyncio.sleep(_LOOK_SECONDS)
    held = f"holds {plural(runs, 'run')}" if runs else "holds no run"
    print_result(
        {"node": node, "is_cordoned": True, "living": living, "runs": runs},
        f"node '{node}' takes nothing new and {held} ({_processes(living)})",
    )


def _processes(count: int) -> str:
    return plural(count, "living process", "living processes")
