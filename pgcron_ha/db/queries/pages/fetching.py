"""A named statement's rows as dictionaries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from pgcron_ha.db.driver.calls import fitting
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA

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


class Query:
    """A statement and the values that bound what it reads; the others are given when it is asked.

    ``await query(connection, schema=…, name=…)`` gives its rows, ``await query.one(…)`` the first
    of them, or None.
    """

    def __init__(self, statement: str, **bounds: Any) -> None:
        self._statement = statement
        self._bounds = bounds

    async def __call__(
        self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any
    ) -> list[Row]:
        """All its rows."""
        return await fetch(connection, self._statement, schema, **{**self._bounds, **values})

    async def one(
        self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any
    ) -> Row | None:
        """Its first row."""
        found = await self(connection, schema=schema, **values)
        return found[0] if found else None

    async def the(self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any) -> Row:
        """The row of a statement that always has one."""
        (found,) = await self(connection, schema=schema, **values)
        return found


async def clock(connection: Any, schema: str) -> datetime:
    """The database's clock, now."""
    now: datetime = (await _CLOCK.the(connection, schema=schema))["now"]
    return now


_CLOCK = Query("page_clock")
