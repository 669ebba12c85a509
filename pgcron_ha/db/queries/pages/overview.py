"""What the overview reads: the statements of ``sql/pages_overview.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

# Numbers above this are shown as "more than".
COUNTED_EXACTLY: Final = 10_000
# The oldest due runs of each queue and priority, the newest dead letters: enough to name causes.
LOOK: Final = 500
# Queues whose due runs are looked at.
QUEUES: Final = 200
RECENT_RUNS: Final = 2_000
ROWS: Final = 200


cluster: Final = Query("page_cluster").the
"""The server's clock, and pauses."""

schedule_count: Final = Query("page_schedule_count").the
"""A row of one number, `schedules`."""

open_letters: Final = Query("page_open_letters", most=COUNTED_EXACTLY).the
"""How many dead `letters` are open, at most `COUNTED_EXACTLY` + 1, and how many died
`of_last_hour`; how many were `looked` at, also where a person sees a part of them.
"""

due: Final = Query("page_due", look=LOOK, queues=QUEUES, limit=ROWS)
"""Ready runs that are due, by queue and schedule, the oldest first.

`runs` counts at most `LOOK` of each queue and priority.
"""

# Fewer than `ROWS`: what a group waits for is asked one by one.
waiting: Final = Query(
    "waiting_groups", look=LOOK, most=COUNTED_EXACTLY, queues=QUEUES, limit=100, stuck=False
)
"""Due runs by what they ask for, and what the first of each group waits for: `waits_for` is a word,
`waits_detail` a sentence. `runs` counts them, `at_gates` all of them that are blocked, `blocked`
those that were put aside since no node can take them. With ``stuck`` only those that are blocked,
or that no node can take.
"""

blocked_schedules: Final = Query("page_blocked_schedules", look=COUNTED_EXACTLY, limit=ROWS)
"""Schedules (`schedule_id`) with waiting fires, because no live node offers their handler."""

running: Final = Query("page_running", look=COUNTED_EXACTLY, limit=ROWS)
"""What runs (on one ``incarnation``), the longest first; `timeout` in seconds."""

recent: Final = Query("page_recent", look=RECENT_RUNS).the
"""A row of rates of the newest `RECENT_RUNS` ended runs of all; `is_cut` if there may be more."""

failing_candidates: Final = Query("page_failing_candidates", look=LOOK, limit=ROWS)
"""Schedules (`schedule_id`) that may be failing: those of the newest open dead letters."""

invalid_schedules: Final = Query("list_invalid_schedules", limit=ROWS)
"""Schedules (`schedule_id`) that do not fire because nobody can read them."""

timeline_runs: Final = Query("page_timeline_runs", each=400)
"""Ended runs of ``schedule_ids`` ``since`` an instant, at most 400 of one."""
