"""How long records are kept, as people see and set it: ``sql/retention.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pgcron_ha.db.driver.asking import row as _row
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


async def set_retention(
    connection: Any,
    keep: timedelta,
    *,
    queue: str | None = None,
    outcome: str | None = None,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """Keeps such runs for a shorter time than history, after their end. InvalidInput."""
    await _row(
        connection,
        schema,
        "set_retention",
        keep=keep,
        queue=queue,
        outcome=outcome,
        actor=actor,
    )


async def delete_retention(
    connection: Any,
    *,
    queue: str | None = None,
    outcome: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """Deletes the rule for just these; what is left holds. NotFound."""
    await _row(connection, schema, "delete_retention", queue=queue, outcome=outcome)


async def set_table_retention(
    connection: Any, relation: str, keep: timedelta, *, schema: str = DEFAULT_SCHEMA
) -> None:
    """How long a table's partitions are kept: occurrence, history, attempt or log. InvalidInput,
    NotFound.
    """
    await _row(connection, schema, "set_table_retention", relation=relation, keep=keep)
