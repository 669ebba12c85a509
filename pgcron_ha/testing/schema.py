"""A schema for tests: created, removed, emptied between tests, and its runs made due earlier."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pgcron_ha.db.driver.connecting import connect
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.driver.statements import load
from pgcron_ha.db.queries.rows import Row, Rows
from pgcron_ha.db.schema.uninstall import uninstall
from pgcron_ha.errors import ConfigError

_MARK: Final = "pgcron_ha: made for tests"


async def make_schema(dsn: str, schema: str) -> None:
    """A new schema marked as one of tests, in place of one that has the mark.

    Raises ConfigError for one without the mark: it may be in use.
    """
    from pgcron_ha.db.schema.migrate import migrate  # slow to import, and rarely needed

    statements = load(schema)
    connection = await connect(dsn)
    try:
        found = await connection.fetchrow(statements["testing_schema_comment"].sql, schema)
        if found is not None and found["is_there"] and found["comment"] != _MARK:
            raise ConfigError(
                f"the schema '{schema}' is in the database for tests already",
                "Tests empty it before each of them, so it must be one that they have made.",
                "Name a database without it (the fixture pgcron_dsn), or another schema "
                "(pgcron_schema); `pgcron-ha migrate --uninstall --yes` removes it.",
            )
        await remove_schema(dsn, schema)
        await migrate(dsn, schema)
        await connection.execute(statements["testing_mark_schema"].sql)
    finally:
        await connection.close(timeout=5)


async def remove_schema(dsn: str, schema: str) -> None:
    """Removes what `make_schema` has made, if it is there."""
    await uninstall(dsn, schema, by_force=True)


class TestedSchema:
    """What a test does to its schema, over one connection; errors are of `pgcron_ha.errors`."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    async def is_quiet(self, run_id: int | None) -> bool:
        """Whether nothing executes or could begin, or this run has ended."""
        (row,) = await self.fetch("testing_unfinished", run_id=run_id)
        return row["busy"] == 0 or (run_id is not None and not row["lives"])

    async def lives(self, run_id: int) -> bool:
        """Whether the run has not ended."""
        (row,) = await self.fetch("testing_unfinished", run_id=run_id)
        return bool(row["lives"])

    async def come_nearer(self, most: timedelta) -> timedelta | None:
        """Makes all waiting runs due earlier, so that the next is due now: by how much; None if
        there is none, or it would be more than `most`.
        """
        (row,) = await self.fetch("testing_next_due")
        if row["seconds"] is None or row["seconds"] > most.total_seconds():
            return None
        seconds = max(0.0, row["seconds"])
        await self.fetch("testing_come_nearer", seconds=seconds)
        await self.fetch("testing_wake_nodes")
        return timedelta(seconds=seconds)

    async def fetch(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a statement."""
        return await Rows(name)(self.connection, schema=self._schema, **values)
