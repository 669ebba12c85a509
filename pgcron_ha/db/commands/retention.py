"""How long records are kept, as people see and set it: ``sql/retention.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.pages.fetching import Row, fetch


async def retention(
    connection: Any, *, limit: int = DEFAULT_LIMIT, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Tables (`relation`) first, then rules (`queue`, `outcome`; None: every), the most specific
    first: `keep` is what was set, `in_force` is shorter where history as a whole is.
    """
    return await fetch(connection, "list_retention", schema, limit=limit)


def scope_words(row: Mapping[str, Any]) -> str:
    """What a row of `retention` is about: ``succeeded runs of queue 'mail'``."""
    if row["relation"] is not None:
        return str(row["relation"])
    outcome = "ended" if row["outcome"] is None else row["outcome"].replace("_", " ")
    return f"{outcome} runs" + ("" if row["queue"] is None else f" of queue '{row['queue']}'")
