"""What the pages of backfills ask: statements of ``sql/backfills.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

PAGE_ROWS: Final = 50


async def backfills(
    connection: Any,
    *,
    schedule_id: int | None = None,
    state: str | None = None,
    limit: int = PAGE_ROWS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Rows of the view ``backfills``, the newest first; `args` and `error` are JSON text."""
    return await fetch(
        connection, "list_backfills", schema, schedule_id=schedule_id, state=state, limit=limit
    )


async def one(connection: Any, backfill: int, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """One of them, or None."""
    return await fetch_one(connection, "one_backfill", schema, backfill=backfill)


async def runs(
    connection: Any, backfill: int, *, limit: int = PAGE_ROWS, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Its open runs, then the last ones that did not succeed."""
    return await fetch(connection, "runs_of_backfill", schema, backfill=backfill, limit=limit)
