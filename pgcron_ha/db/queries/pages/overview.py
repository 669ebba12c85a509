"""What the overview asks: the statements of ``sql/pages_overview.sql``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one
from pgcron_ha.db.queries.unresponsive_runs import UNRESPONSIVE
from pgcron_ha.errors import SchemaError

# Numbers above this are shown as "more than".
COUNTED_EXACTLY: Final = 10_000
# The oldest due runs of each queue and priority, the newest dead letters: enough to name causes.
LOOK: Final = 500
# Ways to the claim that are looked at: queues times priorities.
PATHS: Final = 200
RECENT_RUNS: Final = 2_000
ROWS: Final = 200
LANE_RUNS: Final = 400


async def cluster(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """The server's clock, pauses, and counts (each at most `COUNTED_EXACTLY` + 1)."""
    found = await fetch_one(connection, "page_cluster", schema, most=COUNTED_EXACTLY)
    if found is None:
        raise SchemaError(
            "the cluster's row is missing",
            "The migration writes it and nothing deletes it.",
            f"INSERT INTO {schema}.cluster DEFAULT VALUES",
        )
    return found


async def dead_groups(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Open dead letters by handler and first line of the error, the newest causes first."""
    return await fetch(connection, "page_dead_groups", schema, look=LOOK, limit=ROWS)


async def living_nodes(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """The living, and those that died within the hour; `lease_left` and `lease_ttl` in seconds;
    `unresponsive_runs` go on though told to stop.
    """
    return await fetch(connection, "page_living_nodes", schema, limit=ROWS, **UNRESPONSIVE)


async def due(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Due runs by queue, handler and schedule, oldest first, and whether a live node serves them.

    `runs` counts at most `LOOK` of each queue and priority.
    """
    return await fetch(connection, "page_due", schema, look=LOOK, paths=PATHS, limit=ROWS)


async def parked(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Runs that were put aside since no live node offers their handler."""
    return await fetch(connection, "page_parked", schema, look=COUNTED_EXACTLY, limit=ROWS)


async def parked_schedules(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[int]:
    """Ids of schedules whose fires wait since no live node offers their handler."""
    found = await fetch(
        connection, "page_parked_schedules", schema, look=COUNTED_EXACTLY, limit=ROWS
    )
    return [row["schedule_id"] for row in found]


async def running(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """What runs, the longest first; `seconds` and `timeout`, and if its node has its lease."""
    return await fetch(connection, "page_running", schema, look=COUNTED_EXACTLY, limit=ROWS)


async def recent(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """Rates of the newest `RECENT_RUNS` ended runs; `is_cut` if there may be more."""
    return (await fetch_one(connection, "page_recent", schema, look=RECENT_RUNS)) or {}


async def failing_candidates(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[int]:
    """Ids of schedules that may be failing: those of the newest open dead letters."""
    found = await fetch(connection, "page_failing_candidates", schema, look=LOOK, limit=ROWS)
    return [row["schedule_id"] for row in found]


async def invalid_schedules(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Schedules that do not fire because nobody can read them."""
    return await fetch(connection, "page_invalid_schedules", schema, limit=ROWS)


async def paused_queues(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Queues that nobody claims from, the longest first."""
    return await fetch(connection, "page_paused_queues", schema, limit=ROWS)


async def lane_runs(
    connection: Any,
    schedule_ids: Sequence[int],
    since: datetime,
    *,
    each: int = LANE_RUNS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Ended runs of these schedules since an instant, at most `each` of one."""
    return await fetch(
        connection,
        "page_lane_runs",
        schema,
        schedule_ids=list(schedule_ids),
        since=since,
        each=each,
    )
