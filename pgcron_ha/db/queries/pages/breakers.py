"""What pages ask of circuit breakers: statements of ``sql/breakers.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch

# Held runs that are looked at, and lines that are shown.
LOOK: Final = 10_000
ROWS: Final = 200


async def open_breakers(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Those that are not closed, the longest first."""
    return await fetch(connection, "page_breakers", schema, limit=ROWS)


async def broken(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Runs that wait for a breaker, by queue and handler; `runs` counts at most `LOOK`."""
    return await fetch(connection, "page_broken", schema, look=LOOK, limit=ROWS)


async def of_run(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """The breaker that the run waits for (`state` is set), and that whose fallback took it."""
    return await fetch(connection, "breaker_of_run", schema, run_id=run_id)
