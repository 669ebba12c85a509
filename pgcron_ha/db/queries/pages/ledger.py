"""What the ledger of a schedule asks: the statement of ``sql/pages_schedules.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

PAGE_ROWS: Final = 50
# How many fires a filter searches at once.
LOOK: Final = 20_000
DECISIONS: Final = ("run", "skipped", "superseded", "expired", "cancelled", "missed")

occurrences: Final = Query("page_occurrences", look=LOOK, limit=PAGE_ROWS + 1)
"""Decisions on the fires of ``schedule_id`` ``before`` an instant (None: all), newest first: a
single fire, or a range of missed ones; ``decision`` chooses. One row more than a page has.

`fires` is how many a row stands for (None: too many to count), `last_at` the last of them;
`run_state` the state of its run (None with a `run_id`: retention removed it), `hold` why it is
parked.
"""
