"""What the overview is made of, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.blocking import blocking_sessions
from pgcron_ha.db.queries.pages import dead_letters as ask_letters
from pgcron_ha.db.queries.pages import nodes as ask_nodes
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.db.queries.pages import queues as ask_queues
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.web.health import Health, judge
from pgcron_ha.web.pages.nodes import NodeRow, node_row

TRACKS: Final = 12
_OPEN_LETTERS: Final = {
    "state": "open",
    **dict.fromkeys(("handler", "error_class", "fingerprint", "queue", "schedule")),
}
# Nodes that ended within this time are shown beside the living.
_ENDED_WITHIN: Final = 3600.0

Rows: TypeAlias = list[dict[str, Any]]
Judged: TypeAlias = list[tuple[dict[str, Any], Health]]


@dataclass(frozen=True)
class Facts:
    """What was read for the overview: rows as `pgcron_ha.db.queries.pages` documents them, and what
    they meant at that moment.
    """

    cluster: dict[str, Any]
    nodes: list[NodeRow]
    due: Rows
    parked: Rows
    breakers: Rows
    broken: Rows
    """Circuit breakers that are not closed, and the runs that wait for them."""
    running: Rows
    recent: dict[str, Any]
    dead: Rows
    paused_queues: Rows
    judged: Judged
    """Schedules that may be unhealthy, and those that fire next, with their health."""
    blocking: Rows
    """Sessions that keep nodes waiting for a lock."""
    tracks: Rows
    """Ended runs of some of the schedules within the window."""

    @property
    def now(self) -> datetime:
        """When it was read, by the database's clock."""
        now: datetime = self.cluster["now"]
        return now


async def read_facts(connection: Connection, length: timedelta, *, schema: str) -> Facts:
    """Everything the page shows, in one read-only transaction."""
    cluster = await ask.cluster(connection, schema=schema)
    due = await ask.due(connection, schema=schema)
    running = await ask.running(connection, schema=schema)
    candidates = [
        *await ask.failing_candidates(connection, schema=schema),
        *due,
        *running,
        *await ask.invalid_schedules(connection, schema=schema),
        *await ask_schedules.next_schedules(connection, limit=TRACKS, schema=schema),
    ]
    known = dict.fromkeys(
        row["schedule_id"] for row in candidates if row["schedule_id"] is not None
    )
    ids = list(known)[: ask_schedules.MOST_IDS]
    schedules = await ask_schedules.schedules(connection, ids=ids, limit=len(ids), schema=schema)
    now = cluster["now"]
    judged = [(row, judge(row, now)) for row in schedules]
    chosen = [row["id"] for row, _ in for_timeline(judged, now)]
    since = now - length * 2 / 3
    nodes = await ask_nodes.nodes(
        connection, ended_within=_ENDED_WITHIN, names=0, limit=ask.ROWS, schema=schema
    )
    return Facts(
        cluster=cluster,
        nodes=[node_row(row, now) for row in nodes],
        due=due,
        parked=await ask.parked(connection, schema=schema),
        breakers=await ask_queues.open_breakers(connection, schema=schema),
        broken=await ask_queues.broken(connection, schema=schema),
        running=running,
        recent=await ask.recent(connection, schema=schema),
        dead=await ask_letters.groups(
            connection, **_OPEN_LETTERS, look=ask.LOOK, limit=ask.ROWS, schema=schema
        ),
        paused_queues=[
            row for row in await ask_queues.settings(connection, schema=schema) if row["paused_at"]
        ],
        judged=judged,
        blocking=await blocking_sessions(connection, schema=schema),
        tracks=await ask.timeline_runs(connection, schedule_ids=chosen, since=since, schema=schema),
    )


def for_timeline(judged: Judged, now: datetime) -> Judged:
    """What the timeline shows: the problem ones first, then by next fire."""

    def rank(line: tuple[dict[str, Any], Health]) -> tuple[bool, bool, datetime]:
        row, health = line
        return (not health.is_problem, row["next_fire"] is None, row["next_fire"] or now)

    return sorted(judged, key=rank)[:TRACKS]
