"""What the pages of queues ask: the statements of ``sql/pages_queues.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch

QUEUES: Final = 200
# Ways to the claim that are looked at, of each kind: queues times priorities.
PATHS: Final = 200
# One way is counted so far, and all together so far: an index scan of some tens of milliseconds.
COUNTED: Final = 10_000
BUDGET: Final = 100_000
LOOK: Final = 10_000
HEAD_ROWS: Final = 15


async def settings(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Queues that were ever paused or limited: since when, by whom and why they are paused,
    `max_running`, `rate` starts in `per` seconds, and when the next may start if that many have
    (`next_at`); the paused first.
    """
    return await fetch(connection, "page_queue_settings", schema, limit=QUEUES)


async def depths(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Waiting runs by queue: `due` ones, those to come `later`, and the `first_due` of both.

    Counts of one queue are lower bounds when `is_cut`; then `first_due` of runs with a lane is that
    of those looked at.
    """
    return await fetch(
        connection,
        "page_queue_depths",
        schema,
        paths=PATHS,
        most=COUNTED,
        budget=BUDGET,
        limit=QUEUES,
    )


async def running(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """How many runs of each queue run, of the first `LOOK` that run."""
    return await fetch(connection, "page_queue_running", schema, look=LOOK, limit=QUEUES)


async def servers(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """How many living `nodes` take from each queue, with how many `slots`, `free` ones of them."""
    return await fetch(connection, "page_queue_servers", schema, limit=QUEUES)


async def dead(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Open dead letters by queue, of the newest `LOOK`."""
    return await fetch(connection, "page_queue_dead", schema, look=LOOK, limit=QUEUES)


async def head(
    connection: Any, queue: str, *, is_due: bool, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """The first runs of a queue in the order of the claim: those that are due, or those to come.

    `is_offered`: a living node that takes from the queue offers the handler; `waits_for`: the run
    of the same schedule that has to end first; `lane_next_at`: when its lane's rate allows a start.
    """
    return await fetch(
        connection, "page_queue_head", schema, queue=queue, due=is_due, limit=HEAD_ROWS
    )


async def runs(connection: Any, queue: str, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """What runs of a queue, the longest first."""
    return await fetch(
        connection, "page_queue_runs", schema, queue=queue, look=LOOK, limit=HEAD_ROWS
    )
