"""``pgcron-ha queues``: list, limit, pause and resume them, and what they want of nodes."""

from __future__ import annotations

import click

from pgcron_ha.cli.lanes import rate_in_words, rate_option, slots_option
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    limit_option,
    plural,
    print_json,
    print_rows,
)
from pgcron_ha.cli.session import on_database
from pgcron_ha.client import checks
from pgcron_ha.db.commands import queues as queue_interfaces
from pgcron_ha.db.queries import overview

COLUMNS = (
    Column("QUEUE", "name", 24),
    Column("WAITING", "waiting"),
    Column("DUE", "due"),
    Column("RUNNING", "running"),
    Column("MOST", "max_running"),
    Column("RATE", "rate"),
    Column("PER", "per"),
    Column("PARKED", "held"),
    Column("OLDEST DUE", "oldest_due"),
    Column("PAUSED", "paused_at"),
    Column("NOTE", "paused_note", 20),
)


@click.group("queues")
def queues_group() -> None:
    """List, limit, pause and resume queues."""


@queues_group.command("list")
@limit_option()
@json_option
def list_command(limit: int, as_json: bool) -> None:
    """List queues that have live runs or settings."""
    rows = on_database(lambda s: overview.queues(s.connection, limit=limit, schema=s.schema))
    print_rows(rows, COLUMNS, as_json, "no queues")


@queues_group.command("demand")
@click.argument("queue", required=False)
@click.option(
    "--cap",
    type=click.IntRange(1, 100_000),
    default=overview.DEMAND_CAP,
    show_default=True,
    help="So many due runs are counted at most.",
)
@json_option
def demand_command(queue: str | None, cap: int, as_json: bool) -> None:
    """Count the slots that QUEUE, or all, could use now.

    On all nodes together, by weight: what executes, and what is due and may begin. For autoscalers.
    """
    name = None if queue is None else checks.queue_name(queue)
    slots = on_database(lambda s: overview.demand(s.connection, name, cap, schema=s.schema))
    if as_json:
        print_json({"queue": name, "slots": slots})
    else:
        echo(slots)


@queues_group.command("pause")
@click.argument("queue")
@click.option("--note", help="Why; shown wherever the queue is.")
@json_option
def pause_command(queue: str, note: str | None, as_json: bool) -> None:
    """Let nobody take runs from QUEUE; what runs goes on."""
    name = checks.queue_name(queue)
    on_database(
        lambda s: queue_interfaces.pause_queue(
            s.connection, name, note, actor=s.actor, schema=s.schema
        )
    )
    _say(name, "paused", as_json)


@queues_group.command("resume")
@click.argument("queue")
@json_option
def resume_command(queue: str, as_json: bool) -> None:
    """Take runs from QUEUE again."""
    name = checks.queue_name(queue)
    on_database(
        lambda s: queue_interfaces.resume_queue(s.connection, name, actor=s.actor, schema=s.schema)
    )
    _say(name, "resumed", as_json)


@queues_group.command("set")
@click.argument("queue")
@click.option(
    "--max-running",
    default="none",
    metavar="COUNT",
    help="So many of its runs execute at once on all nodes together; none: no limit.",
)
@click.option("--rate", metavar="COUNT/DURATION", help="So many start in any such time: 10/1m.")
@json_option
def set_command(queue: str, max_running: str, rate: str | None, as_json: bool) -> None:
    """Limit QUEUE; what runs goes on, and counts. What is left out is no limit."""
    name = checks.queue_name(queue)
    most = slots_option("--max-running", max_running)
    starts, per = rate_option(rate)
    on_database(
        lambda s: queue_interfaces.set_queue(
            s.connection, name, most, rate=starts, per=per, actor=s.actor, schema=s.schema
        )
    )
    if as_json:
        print_json({"queue": name, "max_running": most, "rate": starts, "per": per})
    else:
        limit = (
            "as many runs as there are slots" if most is None else f"at most {plural(most, 'run')}"
        )
        echo(f"queue '{name}' executes {limit} at once{rate_in_words(rate)}")


def _say(name: str, done: str, as_json: bool) -> None:
    if as_json:
        print_json({"queue": name, "is_paused": done == "paused"})
    else:
        echo(f"queue '{name}' is {done}")
