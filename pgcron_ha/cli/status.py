"""``pgcron-ha status``: what the cluster does, what waits, and for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import echo, echo_state, plural, report, shown
from pgcron_ha.cli.session import Session, with_session
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.blocking import blocking_sessions, holding_words, naming, session_words
from pgcron_ha.db.queries.node_health import read_health, unresponsive_words, without_words
from pgcron_ha.errors import Conflict


@click.command("status", cls=arguments.JsonCommand)
@with_session
async def status_command(session: Session) -> None:
    """Show what the cluster does and what waits."""
    blocking = await session.call(blocking_sessions)
    # Locks are reported, not waited for.
    await session.connection.execute("SET lock_timeout = '1s'")
    try:
        status = {"blocking": blocking, **await session.call(read_tables)}
    except Conflict as error:
        raise naming(error, await session.call(blocking_sessions)) from error
    report(status)
    pauses = (*_pauses(status["counts"]), *_cordons(status["nodes"]))
    for line in summary_lines(status):
        echo(line)
    for line in (*pauses, *_complaints(status)):
        echo_state(line)


async def read_tables(connection: Connection, *, schema: str = DEFAULT_SCHEMA) -> overview.Row:
    """What runs, what waits, and what has ended in the last hour."""
    return {
        "counts": await overview.counts(connection, schema=schema),
        "nodes": await overview.nodes(connection, schema=schema),
        "outcomes_of_last_hour": await overview.outcomes(connection, schema=schema),
        "blocked": await overview.blocked(connection, schema=schema),
        "invalid_schedules": await overview.invalid_schedules(connection, schema=schema),
    }


def summary_lines(status: overview.Row) -> Iterator[str]:
    """Nodes, runs, schedules, dead letters and what has ended, of what `read_tables` has read."""
    counts, nodes = status["counts"], status["nodes"]
    living = [node for node in nodes if node["has_lease"]]
    used = sum(node["slots_used"] for node in living)
    silent = len(nodes) - len(living)
    yield (
        f"nodes      {len(living)} alive, {used} of {sum(n['slots'] for n in living)} slots used"
        + (f", {silent} silent" if silent else "")
    )
    oldest = counts["oldest_due"]
    yield (
        f"runs       {counts['running']} running, {counts['due']} due"
        + (f" (oldest {shown(oldest)})" if oldest else "")
        + f", {counts['later']} later, {counts['blocked']} blocked"
    )
    yield (
        f"schedules  {counts['schedules']}, {counts['paused_schedules']} paused, "
        f"{len(status['invalid_schedules'])} invalid"
    )
    yield f"dead       {plural(counts['dead_letters'], 'dead letter')}"
    ended = ", ".join(f"{o['runs']} {o['outcome']}" for o in status["outcomes_of_last_hour"])
    yield f"last hour  {ended or 'no run ended'}"


def _cordons(nodes: Sequence[overview.Row]) -> Iterator[str]:
    for node in nodes:
        if node["state"] == "cordoned":
            by = f"by {shown(node['cordoned_by'])}: {shown(node['cordon_note'])}"
            yield f"cordoned   node '{node['name']}' since {shown(node['cordoned_at'])} {by}"


def _troubles(node: overview.Row) -> Iterator[str]:
    health = read_health(node)
    for failing in health.failing:
        since = f"no pass has succeeded for {failing.seconds:.0f} s"
        yield f"failing    {failing.service} of node '{node['name']}': {since}: {failing.error}"
    for without in health.without:
        yield f"set aside  {without.what}: on node '{node['name']}' {without_words(without)}"
    if health.more:
        yield f"set aside  {health.more} more on node '{node['name']}'; its log says why"


def _pauses(counts: overview.Row) -> Iterator[str]:
    if counts["paused_at"]:
        by = f"by {shown(counts['paused_by'])}: {shown(counts['paused_note'])}"
        yield f"paused     everything, since {shown(counts['paused_at'])} {by}"
    if counts["quarantine_until"]:
        yield f"paused     claims, until {shown(counts['quarantine_until'])}: the server is another"
    if counts["paused_queues"]:
        queues = plural(counts["paused_queues"], "queue")
        yield f"paused     {queues}; `pgcron-ha queues list` says which"


def _complaints(status: overview.Row) -> Iterator[str]:
    for row in status["blocking"]:
        yield f"locked     {session_words(row)} {holding_words(row)}"
    for node in status["nodes"]:
        if node["unresponsive_runs"]:
            words = unresponsive_words(node["unresponsive_runs"])
            yield f"stuck      node '{node['name']}': {words}"
    for node in status["nodes"]:
        yield from _troubles(node)
    for blocked in status["blocked"]:
        since = shown(blocked["oldest_due"])
        yield f"blocked    {plural(blocked['runs'], 'run')} since {since}: {blocked['reason']}"
    for schedule in status["invalid_schedules"]:
        yield f"invalid    schedule '{schedule['name']}': {schedule['error'].get('message')}"
