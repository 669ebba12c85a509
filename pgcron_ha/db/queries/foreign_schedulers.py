"""What other schedulers keep in databases of their own."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import connected
from pgcron_ha.db.driver.session_settings import COMMAND

_JOBS: Final = (
    "SELECT to_jsonb(j)::text AS job, current_setting('cron.timezone', true) AS timezone "
    "FROM cron.job j ORDER BY j.jobid LIMIT 10000"
)


async def pg_cron_jobs(dsn: str) -> tuple[list[str], str | None]:
    """The rows of ``cron.job`` as JSON texts, and pg_cron's time zone, if that is set.

    Raises DatabaseUnavailable, and what the database refuses (no such table, no right to read it).
    """
    async with connected(dsn, COMMAND) as connection:
        with answers():
            rows = await connection.fetch(_JOBS)
    return [row["job"] for row in rows], rows[0]["timezone"] if rows else None
