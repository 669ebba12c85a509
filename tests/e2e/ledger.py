"""What the tests ask the database, and how they ask for runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import asyncpg

from tests.waiting import until

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Row: TypeAlias = asyncpg.Record


async def enqueue(
    connection: Connection, handler: str, count: int = 1, /, args: Any = None, **columns: Any
) -> list[int]:
    """Runs of one handler by plain INSERT; their ids. ``columns``: of ``run``."""
    names = ["handler", "args", *columns]
    values = [handler, json.dumps(args or {}), *columns.values()]
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    rows = await connection.fetch(
        f"INSERT INTO pgcron.run ({', '.join(names)}) SELECT {marks}"
        f" FROM generate_series(1, {count}) RETURNING id",
        *values,
    )
    return [row["id"] for row in rows]


async def history(connection: Connection, runs: Sequence[int]) -> list[Row]:
    return await connection.fetch(
        "SELECT * FROM pgcron.history WHERE id = ANY($1) ORDER BY id", runs
    )


async def ended(connection: Connection, *runs: int, deadline: float = 30) -> list[Row]:
    """Their rows of history, once all of them have ended."""

    async def all_of_them() -> list[Row] | None:
        rows = await history(connection, runs)
        return rows if len(rows) >= len(runs) else None

    found = await until(f"{len(runs)} run(s) have ended", all_of_them, deadline=deadline)
    assert found is not None
    return found


async def live_run(connection: Connection, run: int) -> Row | None:
    return await connection.fetchrow("SELECT * FROM pgcron.run WHERE id = $1", run)


async def dumped(connection: Connection, but: Sequence[str] = ()) -> str:
    """Every row of every table as text."""
    return "\n".join(text for name, text in (await tables(connection)).items() if name not in but)


async def tables(connection: Connection) -> dict[str, str]:
    """The rows of each table as text."""
    names = await connection.fetch(
        "SELECT c.relname AS name FROM pg_class c"
        " WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')"
        " AND NOT c.relispartition"
    )
    rows = "SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM pgcron.{} t"
    return {each["name"]: await connection.fetchval(rows.format(each["name"])) for each in names}


async def unaccounted(connection: Connection) -> int:
    """Occurrences that were decided to run and whose run is neither alive nor in history, once."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.occurrence o WHERE o.decision = 'run' AND 1 <>"
        " (SELECT count(*) FROM pgcron.run r WHERE r.id = o.run_id)"
        " + (SELECT count(*) FROM pgcron.history h WHERE h.id = o.run_id)"
    )
    return count
