"""What the live table shows, read from the database: bounded, a few milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pgcron_ha.db import demo, overview
from pgcron_ha.db.clients import Connection
from pgcron_ha.db.overview import Row

# A terminal shows no more; the summary at the end has all.
MOST_SCHEDULES: Final = 15
_MOST_ASKED_FOR: Final = 3
# A demo may run for days: counting is for the last while.
_COUNTED: Final = timedelta(hours=1)


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
        now=await demo.clock(connection),
        nodes=[node for node in nodes if node["started_at"] > since],
        schedules=await demo.schedules(connection, limit=MOST_SCHEDULES, schema=schema),
        outcomes=await demo.outcomes(connection, since, _COUNTED, schema=schema),
        counts=await overview.counts(connection, schema=schema),
        parked=await overview.parked(connection, schema=schema),
        asked_for=await demo.asked_for(connection, since, limit=_MOST_ASKED_FOR, schema=schema),
    )
