"""What the pages of schedules, ledgers and calendars read: ``sql/pages_schedules.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query
from pgcron_ha.model.health import LAST_RUNS

PAGE_ROWS: Final = 50
NAMES: Final = 200
MOST_IDS: Final = 500
# The schedules that were made last, among which the new ones are.
NEW_LOOK: Final = 5_000
CALENDARS: Final = 200
# How many fires a filter of the ledger searches at once.
LEDGER_LOOK: Final = 20_000
DECISIONS: Final = (
    *("run", "skipped", "superseded", "expired", "cancelled", "upstream_failed", "missed"),
)

schedules: Final = Query("page_schedules", runs=LAST_RUNS)
"""At most ``limit`` schedules by name, with the facts that health is judged from.

``text`` is any part of the name or handler, ``tags`` are those that it has at least, ``after`` is
the name before the first row. Arrays `ids`,
`outcomes`, `finished`, `durations` (seconds, None: never started) and `errors` are the newest
`LAST_RUNS` ended runs, newest first; None: there is none.
"""

next_schedules: Final = Query("page_next_schedules", look=NEW_LOOK)
"""The ``limit`` schedules (`schedule_id`) that fire next."""

lately_paused: Final = Query("page_lately_paused", look=1_000)
"""At most ``limit`` paused schedules (`schedule_id`) whose runs are among the newest that ended."""

occurrences: Final = Query("page_occurrences", "schedule_id", look=LEDGER_LOOK, limit=PAGE_ROWS + 1)
"""Decisions on the fires of ``schedule_id`` ``before`` an instant (None: all), newest first: a
single fire, or a range of missed ones; ``decision`` chooses. One row more than a page has.

`fires` is how many a row is for (None: too many to count), `last_at` the last of them; `run_state`
the state of its run (None with a `run_id`: retention removed it), `waits_for` and `waits_detail`
what it waits for.
"""

ledger_end: Final = Query("page_ledger_end", "schedule_id", look=LEDGER_LOOK).one
"""The last of the fires ``before`` an instant among which a ``decision`` is searched; None: there
are fewer.
"""

calendars: Final = Query("list_calendars", most=0, limit=CALENDARS)
"""The first `CALENDARS` by name, without their contents."""

calendar_parents: Final = Query("page_calendar_parents", "name", limit=CALENDARS).names
"""Calendars that name it."""

labels: Final = Query("page_schedule_labels", look=NEW_LOOK, limit=NAMES).the
"""A row to suggest: each ``owner`` and each ``tag``."""

near_names: Final = Query("page_schedule_names", "text", limit=8).names
"""Names that are like one that does not exist."""

queue_names: Final = Query("page_queue_names", limit=NAMES).names
"""The queues that schedules name."""

offered: Final = Query("page_offered", limit=NAMES).the
"""What living nodes take: the first `NAMES` ``handlers`` and ``queues``, and ``is_served``: whether
one of them takes the handler's runs from the queue, with these labels.
"""
