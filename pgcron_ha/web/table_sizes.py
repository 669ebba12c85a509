"""How large the tables are, for who scrapes: read once a minute; no scrape waits long for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries import storage
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.storage import TableSize
from pgcron_ha.web.reading import Reader

LIFE_SECONDS: Final = 60.0
# A scrape answers with what it knows: one on a slow database has the sizes the next time.
_WAIT_SECONDS: Final = 0.5
# Labels of the metric; the schema has some forty tables.
MOST_TABLES: Final = 100


class TableSizes:
    """Belongs to the event loop of its reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._reading: asyncio.Task[None] | None = None
        self._again_at = 0.0
        self._sizes: dict[str, int] = {}

    async def look(self) -> Mapping[str, int]:
        """Bytes of the largest tables by name; empty while the database can't say."""
        reading = self._reading
        if reading is None and monotonic() >= self._again_at:
            self._again_at = monotonic() + LIFE_SECONDS
            reading = self._reading = asyncio.create_task(self._read())
        if reading is not None:
            await asyncio.wait({reading}, timeout=_WAIT_SECONDS)
        return self._sizes

    async def close(self) -> None:
        """Ends what is being read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read(self) -> None:
        async def ask(connection: Connection) -> tuple[TableSize, ...]:
            return await storage.tables(connection, schema=self._reader.schema)

        try:
            found = await self._reader.snapshot(("table_sizes",), ask, life=0.0)
            tables = () if found.problem is not None else found.value
        except PgcronError:
            tables = ()
        self._sizes = {table.name: table.total for table in tables[:MOST_TABLES]}
        self._reading = None
