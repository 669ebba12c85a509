"""What the overview reads: the statements of ``sql/pages_overview.sql``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pgcron_ha.db.queries.rows import Query, Row

# Numbers above this are shown as "more than".
COUNTED_EXACTLY: Final = 10_000
# The oldest due runs of each queue and priority, the newest dead letters: enough to name causes.
LOOK: Final = 500
# Queues whose due runs are looked at.
QUEUES: Final = 200
RECENT_RUNS: Final = 2_000
ROWS: Final = 200
TIMELINE_RUNS: Final = 400


cluster: Final = Query("page_cluster", most=COUNTED_EXACTLY).the
"""The server's clock, pauses, and counts (each at most `COUNTED_EXACTLY` + 1)."""

due: Final = Query("page_due", look=LOOK, queues=QUEUES, limit=ROWS)
"""Due runs by queue, handler and schedule, oldest first, and whether a live node serves them.

`runs` counts at most `LOOK` of each queue and priority.
"""

blocked: Final = Query("page_blocked", look=COUNTED_EXACTLY, limit=ROWS)
"""Runs that were put aside since no live node offers their handler."""

blocked_schedules: Final = Query("page_blocked_schedules", look=COUNTED_EXACTLY, limit=ROWS)
"""Schedules (`schedule_id`) with waiting fires, because no live node offers their handler."""

running: Final = Query(
    "page_running", queue=None, incarnation=None, look=COUNTED_EXACTLY, limit=ROWS
)
"""What runs (of one ``queue``, on one ``incarnation``), the longest first, and on which `node`;
`timeout` in seconds.
"""

recent: Final = Query("page_recent", look=RECENT_RUNS).the
"""A row of rates of the newest `RECENT_RUNS` ended runs; `is_cut` if there may be more."""

failing_candidates: Final = Query("page_failing_candidates", look=LOOK, limit=ROWS)
"""Schedules (`schedule_id`) that may be failing: those of the newest open dead letters."""

invalid_schedules: Final = Query("list_invalid_schedules", limit=ROWS)
"""Schedules that do not fire because nobody can read them."""


def unserved(blocked: Iterable[Row], due: Iterable[Row]) -> list[Row]:
    """What no living node can take, by what it asks for: rows of `blocked`, and those of `due` that
    nobody has put aside yet. `weight` is set where only slots are missing; `reason`: in words.
    """
    found: dict[tuple[Any, ...], Row] = {}
    for row in (*blocked, *(each for each in due if not each["is_served"])):
        weight = row["weight"] if row["is_offered"] else None
        asked = {"handler": row["handler"], "queue": row["queue"], "requires": row["requires"]}
        key = row["handler"], row["queue"], tuple(row["requires"] or ()), weight
        new = {**asked, "weight": weight, "runs": 0, "oldest_due": row["oldest_due"]}
        known = found.setdefault(key, {**new, "reason": nobody_offers(new)})
        known["runs"] += row["runs"]
        known["oldest_due"] = min(known["oldest_due"], row["oldest_due"])
    return sorted(found.values(), key=lambda row: row["oldest_due"])


def nobody_offers(row: Row) -> str:
    """Why no live node takes such runs; with a weight the handler is offered, but by no node with
    so many slots.
    """
    what = f"offers '{row['handler']}' for queue '{row['queue']}'"
    if row["weight"] is not None:
        needed = ", ".join([*(row["requires"] or ()), f"{row['weight']} slots"])
        return f"needs {needed}: no live node that {what} has so many"
    if not row["requires"]:
        return f"no live node {what}"
    needed = ", ".join(row["requires"])
    return f"needs {needed}: no live node that {what} announces it"


timeline_runs: Final = Query("page_timeline_runs", each=TIMELINE_RUNS)
"""Ended runs of ``schedule_ids`` ``since`` an instant, at most `TIMELINE_RUNS` of one."""
