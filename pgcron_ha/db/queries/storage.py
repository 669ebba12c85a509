"""Table sizes: ``sql/storage.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.queries.rows import Query, Row
from pgcron_ha.model.storage import tables_of

# Ten years of daily partitions of each table that has them.
_sizes: Final = Query("list_table_sizes", limit=15_000)


async def tables(connection: Any, **options: Any) -> list[Row]:
    """Every table of the schema with its partitions, as `tables_of`; reads the catalog and
    statistics, and no row of the tables.
    """
    return tables_of(await _sizes(connection, **options))
