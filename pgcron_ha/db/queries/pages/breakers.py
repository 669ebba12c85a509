"""What pages ask of circuit breakers: statements of ``sql/breakers.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

# Held runs that are looked at, and lines that are shown.
LOOK: Final = 10_000
ROWS: Final = 200

open_breakers: Final = Query("page_breakers", limit=ROWS)
"""Those that are not closed, the longest first."""

broken: Final = Query("page_broken", look=LOOK, limit=ROWS)
"""Runs that wait for a breaker, by queue and handler; `runs` counts at most `LOOK`."""

of_run: Final = Query("breaker_of_run")
"""The breaker that ``run_id`` waits for (`state` is set), and the one whose fallback took it."""
