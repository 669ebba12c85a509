"""A named statement's rows as dictionaries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from pgcron_ha.db.driver.calls import fitting

Row: TypeAlias = dict[str, Any]


async def fetch(connection: Any, name: str, schema: str, /, **values: Any) -> list[Row]:
    """The rows of the statement `name`. Inside the pool's transaction, which words the errors.

    The driver keeps the prepared statement, so the next call plans nothing anew.
    """
    statement = await fitting(connection, name, schema)
    found = await connection.fetch(statement.sql, *(values[key] for key in statement.parameters))
    return [dict(row) for row in found]


async def fetch_one(connection: Any, name: str, schema: str, /, **values: Any) -> Row | None:
    """The first row of the statement `name`, or None."""
    found = await fetch(connection, name, schema, **values)
    return found[0] if found else None


async def clock(connection: Any, schema: str) -> datetime:
    """The database's clock, now."""
    found = await fetch_one(connection, "page_clock", schema)
    assert found is not None  # it has no FROM
    now: datetime = found["now"]
    return now
