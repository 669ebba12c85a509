"""The rows of named statements as dictionaries."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.calls import Named, fitting, plain
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, Statement
from pgcron_ha.errors import NotFound

Row: TypeAlias = dict[str, Any]
Values: TypeAlias = Mapping[str, Any]
Place = TypeVar("Place")

# A listing of infinity would be a date nobody can read.
_NEVER: Final = (datetime.max.year, datetime.min.year)


@dataclass(frozen=True)
class BoundedPage(Generic[Place]):
    """One page of a list, the newest first, for which only so many rows are looked at.

    ``next`` is where the next page begins (None: there is none). ``is_stopped`` says that the page
    isn't full only because enough was looked at: ``looked`` rows, back to ``looked_to`` if that is
    known.
    """

    rows: Sequence[Row]
    next: Place | None
    looked: int
    looked_to: datetime | None = None
    is_stopped: bool = False


async def fetch(
    connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA, **values: Any
) -> list[Row]:
    """The rows of the statement `name`. Inside the pool's transaction, which words the errors.

    The driver keeps the prepared statement, so the next call plans nothing anew.
    """
    return await _as_sent(connection, await fitting(connection, name, schema), values)


class Rows(Named):
    """``await rows(connection, *values, schema=…, **options)``: the rows of a statement, each a
    dictionary by column with its JSON parsed.

    `one` and `the` ask for a single row. Raises the errors of `pgcron_ha.errors`.
    """

    async def __call__(
        self, connection: Any, *values: Any, schema: str = DEFAULT_SCHEMA, **options: Any
    ) -> list[Row]:
        """All of them."""
        statement = await fitting(connection, self.name, schema)
        return await self._send(connection, statement, self.bound(statement, values, options))

    async def one(self, connection: Any, *values: Any, **options: Any) -> Row | None:
        """The first of them, or None."""
        found = await self(connection, *values, **options)
        return found[0] if found else None

    async def the(self, connection: Any, *values: Any, **options: Any) -> Row:
        """The row of a statement that always has one."""
        (found,) = await self(connection, *values, **options)
        return found

    async def names(self, connection: Any, *values: Any, **options: Any) -> list[str]:
        """The `name` of each."""
        return [row["name"] for row in await self(connection, *values, **options)]

    def existing(
        self, message: str, detail: str, hint: str, *, in_array: bool = False
    ) -> Callable[..., Awaitable[Row]]:
        """As `one`, of a name or number, the required parameter (an array of it), that `message`
        has a place for; NotFound with these sentences if there is none.
        """

        async def the_one(connection: Any, which: Any, **options: Any) -> Row:
            given = {self.required[0]: [which] if in_array else which}
            found = await self.one(connection, **given, **options)
            if found is None:
                raise NotFound(message.format(which), detail, hint)
            return found

        return the_one

    async def _send(self, connection: Any, statement: Statement, values: Values) -> list[Row]:
        # A connection of another class keeps its settings.
        settled: Any = getattr(connection, "settled", nullcontext)
        ordered = [plain(values[name]) for name in statement.parameters]
        with answers():
            async with settled():
                prepared = await connection.prepare(statement.sql)
                found = await prepared.fetch(*ordered, *statement.scope)
        jsons = {each.name for each in prepared.get_attributes() if each.type.name == "jsonb"}
        return [{key: _plain(value, key in jsons) for key, value in row.items()} for row in found]


class Query(Rows):
    """`Rows` for a page: inside the transaction of its pool, which words the errors. JSON stays
    text, and durations are seconds.
    """

    async def _send(self, connection: Any, statement: Statement, values: Values) -> list[Row]:
        return await _as_sent(connection, statement, values)


async def _as_sent(connection: Any, statement: Statement, values: Values) -> list[Row]:
    ordered = [values[key] for key in statement.parameters]
    found = await connection.fetch(statement.sql, *ordered, *statement.scope)
    return [{key: plain(value) for key, value in row.items()} for row in found]


def _plain(value: Any, is_json: bool) -> Any:
    if is_json and isinstance(value, str):
        return json.loads(value)
    if isinstance(value, datetime) and value.year in _NEVER:
        return None
    return value
