"""Named statements as functions that give rows, for connections of asyncpg."""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver.calls import Named, fitting
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.rows import Row, fetch_rows


class Rows(Named):
    """``await rows(connection, *values, schema=…, **options)``: its rows."""

    async def __call__(
        self, connection: Any, *values: Any, schema: str = DEFAULT_SCHEMA, **options: Any
    ) -> list[Row]:
        """Each as a dictionary by column."""
        given = self.bound(await fitting(connection, self.name, schema), values, options)
        return await fetch_rows(connection, self.name, schema, **given)

    async def first(self, connection: Any, *values: Any, **options: Any) -> Row | None:
        """The first of them, or None."""
        found = await self(connection, *values, **options)
        return found[0] if found else None
