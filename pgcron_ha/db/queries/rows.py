"""A named statement's rows as dictionaries, and a statement with its bounds: a query."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime
from typing import Any, Final, TypeAlias

import asyncpg

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.calls import fitting
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA

Row: TypeAlias = dict[str, Any]

# A listing of infinity would be a date nobody can read.
_NEVER: Final = (datetime.max.year, datetime.min.year)


async def fetch(connection: Any, name: str, schema: str, /, **values: Any) -> list[Row]:
    """The rows of the statement `name`. Inside the pool's transaction, which words the errors.

    The driver keeps the prepared statement, so the next call plans nothing anew.
    """
    statement = await fitting(connection, name, schema)
    found = await connection.fetch(statement.sql, *(values[key] for key in statement.parameters))
    return [dict(row) for row in found]


async def fetch_rows(
    connection: asyncpg.Connection, name: str, schema: str, /, **values: Any
) -> list[Row]:
    """The rows of a named statement as dictionaries, its JSON columns parsed."""
    statement = await fitting(connection, name, schema)
    # A connection of another class keeps its settings.
    settled: Any = getattr(connection, "settled", nullcontext)
    with answers():
        async with settled():
            prepared = await connection.prepare(statement.sql)
            json_columns = {a.name for a in prepared.get_attributes() if a.type.name == "jsonb"}
            found = await prepared.fetch(*[values[name] for name in statement.parameters])
    return [
        {key: _plain(value, key in json_columns) for key, value in row.items()} for row in found
    ]


class Query:
    """A statement and the values that it is asked with unless others are given.

    ``await query(connection, schema=…, name=…)`` gives its rows; `one` and `the` are queries for a
    single row.
    """

    _fetch = staticmethod(fetch)

    def __init__(self, statement: str, **bounds: Any) -> None:
        self.bounds = bounds
        self._statement = statement

    async def __call__(
        self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any
    ) -> list[Row]:
        """All its rows."""
        return await self._fetch(connection, self._statement, schema, **{**self.bounds, **values})

    async def one(
        self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any
    ) -> Row | None:
        """Its first row, or None."""
        found = await self(connection, schema=schema, **values)
        return found[0] if found else None

    async def the(self, connection: Any, *, schema: str = DEFAULT_SCHEMA, **values: Any) -> Row:
        """The row of a statement that always has one."""
        (found,) = await self(connection, schema=schema, **values)
        return found


class ParsedQuery(Query):
    """A query outside of the pool of the pages: its JSON columns are parsed, its errors worded."""

    _fetch = staticmethod(fetch_rows)


_clock: Final = Query("read_clock").the


async def clock(connection: Any, schema: str) -> datetime:
    """The database's clock, now."""
    now: datetime = (await _clock(connection, schema=schema))["now"]
    return now


def _plain(value: Any, is_json: bool) -> Any:
    if is_json and isinstance(value, str):
        return json.loads(value)
    if isinstance(value, datetime) and value.year in _NEVER:
        return None
    return value
