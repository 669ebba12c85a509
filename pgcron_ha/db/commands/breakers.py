"""Circuit breakers as people see and set them: ``sql/breakers.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

breakers: Final = Rows("list_breakers", limit=DEFAULT_LIMIT)
"""All of them, those that are not closed first; `waiting` counts up to 10,000 runs."""

fallback_of_run: Final = Rows("fallback_of_run", "run_id").one
"""The breaker whose fallback took a run, and what the run asked for; None: no other took it."""

set_breaker: Final = Call[None](
    "set_breaker", "breaker", "failures", "within", "open_for", handlers=()
)
"""These settings count before what nodes declare. `handlers` share it with the one that it is
named after. InvalidInput.
"""

reset_breaker: Final = Call[bool]("reset_breaker", "breaker")
"""Closes it; what waits for it goes. Whether it was not closed. NotFound."""

delete_breaker: Final = Call[None]("delete_breaker", "breaker")
"""It is gone; a node that declares it makes it anew when it starts. NotFound."""


def fallback_words(row: Mapping[str, Any]) -> str:
    """Why a run has another handler or queue than requested, from `fallback_of_run`."""
    asked = f"asked for {row['asked_handler']} in queue {row['asked_queue']}"
    return f"{asked}; the circuit of {row['breaker']} was open: {row['reason'][:300]}"
