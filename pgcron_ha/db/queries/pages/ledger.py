"""What the ledger of a schedule asks: the statement of ``sql/pages_ledger.sql``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch

PAGE_ROWS: Final = 50
# How many fires a filter searches at once.
LOOK: Final = 20_000
DECISIONS: Final = ("run", "skipped", "superseded", "expired", "cancelled", "missed")


async def occurrences(
    connection: Any,
    schedule_id: int,
    *,
    decision: str | None = None,
    before: datetime | None = None,
    limit: int = PAGE_ROWS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Decisions on fires before an instant, newest first: a single fire, or a range of missed ones.

    `fires` is how many a row stands for (None: too many to count), `last_at` the last of them;
    `run_state` what came of its run (None with a `run_id`: retention removed it), `hold` why it
    is parked.
    """
    return await fetch(
        connection,
        "page_occurrences",
        schema,
        schedule_id=schedule_id,
        decision=decision,
        before=before,
        look=LOOK,
        limit=limit,
    )
