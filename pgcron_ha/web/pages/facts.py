"""What the overview is made of, and how it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.blocking import blocking_sessions
from pgcron_ha.db.queries.health import READINGS
from pgcron_ha.db.queries.pages import dead_letters as ask_letters
from pgcron_ha.db.queries.pages import nodes as ask_nodes
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.db.queries.pages import queues as ask_queues
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.web.health import Health, judge
from pgcron_ha.web.pages.nodes import node_row

TRACKS: Final = 12
_OPEN_LETTERS: Final[dict[str, Any]] = {
    "state": "open",
    **dict.fromkeys(("handler", "error_class", "fingerprint", "queue", "schedule")),
}
# Nodes that ended within this time are shown beside the living.
_ENDED_WITHIN: Final = 3600.0

Judged: TypeAlias = list[tuple[Row, Health]]

# What is read for all of the cluster; `breakers` are those that are not closed, `broken` the runs
# that wait for them, `blocking` sessions that keep nodes waiting for a lock, `holders` have old
# snapshots.
_READ: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "cluster": ask.cluster,
    "due": ask.due,
    "running": ask.running,
    "failing": ask.failing_candidates,
    "invalid": ask.invalid_schedules,
    "next": partial(ask_schedules.next_schedules, limit=TRACKS),
    "nodes": partial(ask_nodes.nodes, ended_within=_ENDED_WITHIN, names=0, limit=ask.ROWS),
    "waiting": ask.waiting,
    "breakers": ask_queues.open_breakers,
    "broken": ask_queues.broken,
    "recent": ask.recent,
    "dead": partial(ask_letters.groups, **_OPEN_LETTERS, look=ask.LOOK, limit=ask.ROWS),
    "queues": ask_queues.settings,
    "blocking": blocking_sessions,
    "holders": READINGS["snapshot_holders"],
}


class Facts(SimpleNamespace):
    """What was read for the overview: rows of each statement of `_READ`, by its name. `judged` are
    schedules that may be unhealthy, and those that fire next, with their health; `tracks` ended
    runs of some of them within the window.
    """

    @property
    def now(self) -> datetime:
        """When it was read, by the database's clock."""
        now: datetime = self.cluster["now"]
        return now


async def read_facts(connection: Connection, length: timedelta, *, schema: str) -> Facts:
    """Everything the page shows, in one read-only transaction."""
    seen = Facts(**{name: await query(connection, schema=schema) for name, query in _READ.items()})
    candidates = [*seen.failing, *seen.due, *seen.running, *seen.invalid, *seen.next]
    known = dict.fromkeys(
        row["schedule_id"] for row in candidates if row["schedule_id"] is not None
    )
    ids = list(known)[: ask_schedules.MOST_IDS]
    schedules = await ask_schedules.schedules(connection, ids=ids, limit=len(ids), schema=schema)
    now = seen.now
    seen.nodes = [node_row(row, now) for row in seen.nodes]
    seen.paused_queues = [row for row in seen.queues if row["paused_at"]]
    seen.judged = [(row, judge(row, now)) for row in schedules]
    chosen = [row["id"] for row, _ in for_timeline(seen.judged, now)]
    since = now - length * 2 / 3
    seen.tracks = await ask.timeline_runs(
        connection, schedule_ids=chosen, since=since, schema=schema
    )
    return seen


def for_timeline(judged: Judged, now: datetime) -> Judged:
    """What the timeline shows: the problem ones first, then by next fire."""

    def rank(line: tuple[Row, Health]) -> tuple[bool, bool, datetime]:
        row, health = line
        return (not health.is_problem, row["next_fire"] is None, row["next_fire"] or now)

    return sorted(judged, key=rank)[:TRACKS]
