"""What the page of queues says of how long records are kept: ``sql/retention.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.pages.fetching import Row, fetch
from pgcron_ha.db.statements import DEFAULT_SCHEMA

ROWS: Final = 100


async def retention(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """As `pgcron_ha.db.retention.retention`, the first `ROWS`."""
    return await fetch(connection, "list_retention", schema, limit=ROWS)
