"""``pgcron-ha status``: what the cluster does, what waits, and for what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import echo, echo_state, plural, report, shown
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.driver.session_settings import LOOK
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.attention import Attention, causes, read_facts
from pgcron_ha.db.queries.blocking import blocking_sessions, naming
from pgcron_ha.errors import Conflict
from pgcron_ha.model.formats import state_words

LAST_HOUR: Final = timedelta(hours=1)
LONG_SET_ASIDE: Final = timedelta(seconds=30)


@click.command("status", cls=arguments.JsonCommand)
def status_command() -> int:
    """Show what the cluster does, what waits, and what needs attention.

    What needs attention is what the overview of the pages shows, in the same words. Exit code 1 if
    something fails: no node is alive, all is paused, a lock keeps nodes waiting, services or
    schedules fail or are stuck, a schedule is invalid, or a row is set aside for half a minute.
    """
    return on_database(_status, of_session=LOOK)


async def _status(session: Session) -> int:
    try:
        tables = await session.call(read_tables)
        seen = await read_facts(session, LAST_HOUR)
    except Conflict as error:
        raise naming(error, await session.call(blocking_sessions)) from error
    # Nothing is linked here, and an empty address would be that of a page that may not be seen.
    found = causes(lambda *_, **__: "/", seen)
    attention = [_described(cause) for cause in found]
    report({"blocking": seen.blocking, **tables, "attention": attention})
    for line in summary_lines(tables):
        echo(line)
    for each in attention:
        echo_state(f"{each['state']:10} {each['what']}: {each['why']}")
        if each["hint"] is not None:
            echo(f"{'':10} {each['hint']}")
    return 1 if any(_fails(cause, seen.now) for cause in found) else 0


def _fails(cause: Attention, now: datetime) -> bool:
    if cause.mark.word == "set aside":
        return cause.since is None or now - cause.since > LONG_SET_ASIDE
    return cause.mark.tone == "fail"


def _described(cause: Attention) -> dict[str, Any]:
    texts = (cause.mark.word, cause.what, cause.why, cause.hint)
    state, what, why, hint = (
        text and text.replace("\N{NARROW NO-BREAK SPACE}", " ") for text in texts
    )
    return {"state": state, "what": what, "since": cause.since, "why": why, "hint": hint}


async def read_tables(connection: Connection, *, schema: str = DEFAULT_SCHEMA) -> overview.Row:
    """What runs, what waits, and what has ended in the last hour."""
    return {
        "counts": await overview.counts(connection, schema=schema),
        "nodes": await overview.nodes(connection, limit=arguments.MOST_ROWS, schema=schema),
        "outcomes_of_last_hour": await overview.outcomes(connection, schema=schema),
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
        f"{counts['invalid_schedules']} invalid"
    )
    yield f"dead       {plural(counts['dead_letters'], 'dead letter')}"
    outcomes = status["outcomes_of_last_hour"]
    ended = ", ".join(f"{each['runs']} {state_words(each['outcome'])}" for each in outcomes)
    yield f"last hour  {ended or 'no run ended'}"
