"""``pgcron-ha cluster``, ``queues`` and ``concurrency``: pause and resume, list and limit."""

from __future__ import annotations

from typing import Final

import click

from pgcron_ha.cli.arguments import MOST_ROWS, RATE, JsonGroup, Rate, ReadBy, limit_option, option
from pgcron_ha.cli.output import columns, note, plural, print_result, print_rows
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.client import checks
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.db.commands import cluster
from pgcron_ha.db.queries import overview

QUEUES: Final = columns(
    "QUEUE=name:24 WAITING DUE RUNNING MOST=max_running RATE PER BLOCKED OLDEST_DUE"
    " PAUSED=paused_at NOTE=paused_note:20"
)
KEYS: Final = columns(
    "KEY=concurrency_key:32 SLOTS BY_WEIGHT RATE PER RUNNING WEIGHT SET_BY:16 SET_AT"
)
_NO_LIMIT: Final = "none"
_rate = option(
    "--rate", "At most 10 start in any minute: 10/1m.", RATE, default=Rate(), show_default=False
)


def _most(option: str, text: str) -> int | None:
    """A number of at least one, or ``none`` for no limit."""
    if text == _NO_LIMIT:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000_000:
        raise click.UsageError(f"{option} is a number from 1, or '{_NO_LIMIT}': not '{text[:40]}'")
    return int(text)


_COUNT = ReadBy("count", _most)


@click.group("cluster", cls=JsonGroup)
def cluster_group() -> None:
    """Pause and resume everything."""


@cluster_group.command("pause")
@option("--note", "Why; shown on the pages and by `status`.")
def pause_cluster_command(note: str | None) -> None:
    """Start no runs at all; what runs goes on.

    Fires become runs that wait.
    """
    act(cluster.pause_cluster, note)
    print_result({"is_paused": True}, "the cluster is paused")


@cluster_group.command("resume")
def resume_cluster_command() -> None:
    """Start runs again."""
    act(cluster.resume_cluster)
    print_result({"is_paused": False}, "the cluster is resumed")


@click.group("queues", cls=JsonGroup)
def queues_group() -> None:
    """List, limit, pause and resume queues."""


@queues_group.command("list")
@limit_option()
def list_queues_command(limit: int) -> None:
    """List queues with live runs, settings or living nodes.

    Of the runs that are due, DUE may begin and BLOCKED wait for an event, such as a node that
    offers their handler; OLDEST DUE is the first of both.
    """
    print_rows(call(overview.queues, limit=limit), QUEUES, "no queues")


@queues_group.command("demand")
@click.argument("queue", required=False)
@option(
    "--limit",
    "Count at most this many due runs.",
    click.IntRange(1, 100_000),
    default=overview.DEMAND_CAP,
)
def demand_command(queue: str | None, limit: int) -> None:
    """Count the slots that QUEUE, or all, could use now.

    On all nodes together, by weight: what executes, and what is due and may begin. For autoscalers.
    """
    name = None if queue is None else checks.queue_name(queue)
    slots = call(overview.demand, name, limit)
    print_result({"queue": name, "slots": slots}, slots)


@queues_group.command("pause")
@click.argument("queue")
@option("--note", "Why; shown with the queue.", into="why")
async def pause_command(session: Session, queue: str, why: str | None) -> None:
    """Start no runs of QUEUE; what runs goes on."""
    checks.queue_name(queue)
    await note_if_unused(session, queue)
    await session.act(cluster.pause_queue, queue, why)
    print_result({"queue": queue, "is_paused": True}, f"queue '{queue}' is paused")


@queues_group.command("resume")
@click.argument("queue")
def resume_command(queue: str) -> None:
    """Start runs of QUEUE again."""
    act(cluster.resume_queue, checks.queue_name(queue))
    print_result({"queue": queue, "is_paused": False}, f"queue '{queue}' is resumed")


@queues_group.command("set")
@click.argument("queue")
@option("--max-running", "Most runs at once, on all nodes together.", _COUNT, default=_NO_LIMIT)
@_rate
async def set_queue_command(
    session: Session, queue: str, max_running: int | None, rate: Rate
) -> None:
    """Limit QUEUE; what runs goes on, and counts. What is left out is no limit."""
    checks.queue_name(queue)
    await note_if_unused(session, queue)
    await session.act(cluster.set_queue, queue, max_running, **rate._asdict())
    most = "as many runs as there are slots"
    if max_running is not None:
        most = f"at most {plural(max_running, 'run')}"
    print_result(
        {"queue": queue, "max_running": max_running, **rate._asdict()},
        f"queue '{queue}' executes {most} at once{rate.words()}",
    )


async def note_if_unused(session: Session, queue: str) -> None:
    """Notes that no living node takes from it, and no run and no setting names it."""
    nodes = await session.call(overview.nodes, limit=1)
    known = {row["name"] for row in await session.call(overview.queues, limit=MOST_ROWS)}
    if nodes and queue not in known:
        near = did_you_mean(queue, known)
        note(f"no living node takes from queue '{queue}', and it has no runs{near}")


@click.group("concurrency", cls=JsonGroup)
def concurrency_group() -> None:
    """Limit how many runs of one concurrency key execute at once."""


@concurrency_group.command("list")
@limit_option()
def list_keys_command(limit: int) -> None:
    """List concurrency keys that have settings or running runs. One without a setting has one
    slot.
    """
    print_rows(call(overview.keys, limit=limit), KEYS, "no concurrency keys")


@concurrency_group.command("set")
@click.argument("concurrency_key", metavar="KEY")
@click.argument("slots", type=_COUNT)
@_rate
@option("--by-weight", "A run takes as many of the slots as its weight.", bool, is_flag=True)
def set_command(concurrency_key: str, slots: int | None, rate: Rate, by_weight: bool) -> None:
    """Let SLOTS runs of KEY execute at once ("none": no limit).

    A KEY that ends with a star is for all keys with that prefix and no setting of their own;
    "*" is for all the others.
    """
    options = {"by_weight": by_weight, **rate._asdict()}
    act(cluster.set_concurrency, concurrency_key, slots, **options)
    room = plural(slots, "slot") if slots else "any number of slots"
    room += ", taken by weight" if by_weight else ""
    print_result(
        {"concurrency_key": concurrency_key, "slots": slots, **options},
        f"concurrency key '{concurrency_key}' has {room}{rate.words()}",
    )


@concurrency_group.command("delete")
@click.argument("concurrency_key", metavar="KEY")
def delete_command(concurrency_key: str) -> None:
    """Delete what was set for KEY."""
    act(cluster.delete_concurrency, concurrency_key)
    print_result(
        {"concurrency_key": concurrency_key, "is_set": False},
        f"concurrency key '{concurrency_key}' has no setting of its own",
    )
