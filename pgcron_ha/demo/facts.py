"""What the live table shows, read from the database: bounded, a few milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from pgcron_ha.db import overview
from pgcron_ha.db.answers import answers
from pgcron_ha.db.clients import Connection
from pgcron_ha.db.statements import in_schema

Row: TypeAlias = dict[str, Any]

# A terminal shows no more; the summary at the end has all.
MOST_SCHEDULES: Final = 15
_MOST_ASKED_FOR: Final = 3
# A demo may run for days: counting is for the last while.
_COUNTED: Final = timedelta(hours=1)

_SCHEDULES: Final = """
SELECT s.name, s.spec, s.enabled, s.status, s.next_fire,
       last.outcome, last.finished_at, last.node, last.seconds
FROM pgcron.schedules s
LEFT JOIN LATERAL (SELECT h.outcome, h.finished_at, h.node,
                          extract(epoch FROM h.finished_at - h.started_at)::float8 AS seconds
                   FROM pgcron.history h WHERE h.schedule_id = s.id
                   ORDER BY h.finished_at DESC LIMIT 1) last ON true
ORDER BY s.name LIMIT $1"""
_OUTCOMES: Final = """
SELECT h.schedule, h.outcome, count(*) AS runs, sum(greatest(h.attempt, 1) - 1)::int AS retries
FROM pgcron.history h WHERE h.finished_at > greatest($1::timestamptz, now() - $2::interval)
GROUP BY h.schedule, h.outcome"""
_ASKED_FOR: Final = """
SELECT r.id, r.handler, r.state, r.node, r.error, r.result::text AS result
FROM pgcron.runs r WHERE r.origin <> 'schedule' AND r.created_at > $1::timestamptz
ORDER BY r.id DESC LIMIT $2"""
_FIRST: Final = """
SELECT true FROM pgcron.history h
WHERE h.finished_at > $1::timestamptz AND h.started_at IS NOT NULL LIMIT 1"""


@dataclass(frozen=True)
class Facts:
    """One look: `now` is the database's clock, `outcomes` has schedule, outcome, runs, retries."""

    now: datetime
    nodes: list[Row]
    schedules: list[Row]
    outcomes: list[Row]
    counts: Row
    parked: list[Row]
    asked_for: list[Row]


async def read_facts(connection: Connection, schema: str, since: datetime) -> Facts:
    """How things stand; nodes, outcomes and asked-for runs of before `since` are left out."""
    nodes = await overview.nodes(connection, also_dead=True, schema=schema)
    return Facts(
        now=await read_clock(connection),
        nodes=[node for node in nodes if node["started_at"] > since],
        schedules=await rows(connection, _SCHEDULES, schema, MOST_SCHEDULES),
        outcomes=await rows(connection, _OUTCOMES, schema, since, _COUNTED),
        counts=await overview.counts(connection, schema=schema),
        parked=await overview.parked(connection, schema=schema),
        asked_for=await rows(connection, _ASKED_FOR, schema, since, _MOST_ASKED_FOR),
    )


async def has_executed(connection: Connection, schema: str, since: datetime) -> bool:
    """Whether a job has been executed since then."""
    return bool(await rows(connection, _FIRST, schema, since))


async def read_clock(connection: Connection) -> datetime:
    """The database's clock."""
    (row,) = await rows(connection, "SELECT clock_timestamp() AS now", "pgcron")
    now: datetime = row["now"]
    return now


async def rows(connection: Connection, sql: str, schema: str, *values: object) -> list[Row]:
    """The rows of a query that is written for the schema ``pgcron``; errors are ours."""
    with answers():
        return [dict(row) for row in await connection.fetch(in_schema(sql, schema), *values)]
