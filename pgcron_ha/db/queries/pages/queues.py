"""What the pages of queues and circuit breakers read: ``pages_queues.sql``, ``breakers.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

QUEUES: Final = 200
# Rows that are counted of one way to the claim, and of one way of all queues together: an index
# scan of some tens of milliseconds.
COUNTED: Final = 10_000
BUDGET: Final = 30_000
LOOK: Final = 10_000

settings: Final = Query("page_queue_settings", limit=QUEUES)
"""Queues that were ever paused or limited: since when, by whom and why they are paused,
`max_running`, `rate` starts in `per` seconds, and when the next may start if the rate is used up
(`next_at`); the paused first.
"""

depths: Final = Query("page_queue_depths", most=COUNTED, budget=BUDGET, limit=QUEUES)
"""Waiting runs by queue: `due` ones, those to come `later`, and the `first_due` of both.

Counts of one queue are lower bounds when `is_cut`; then `first_due` of runs with a key is that of
those looked at.
"""

running: Final = Query("page_queue_running", look=LOOK, limit=QUEUES)
"""How many runs of each queue run, of the first `LOOK` that run."""

servers: Final = Query("page_queue_servers", limit=QUEUES)
"""How many living `nodes` take from each queue, with how many `slots`, `free` ones of them."""

within: Final = Query("page_queues_within", limit=10 * QUEUES).names
"""Those of the ``queues`` whose pages the person may see."""

producers: Final = Query("page_producers", limit=QUEUES)
"""Roles that enqueue: by which `rules`, and within which limits."""

dead: Final = Query("page_queue_dead", look=LOOK, limit=QUEUES)
"""Open dead letters by queue, of the newest `LOOK`."""

head: Final = Query("page_queue_head", limit=15)
"""The first due runs of a ``queue`` in the order of the claim."""

open_breakers: Final = Query("page_breakers", limit=QUEUES)
"""Those that are not closed, the longest first."""

broken: Final = Query("page_broken", look=LOOK, limit=QUEUES)
"""Runs that wait for a breaker, by queue and handler; `runs` counts at most `LOOK`."""
