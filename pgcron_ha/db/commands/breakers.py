"""Circuit breakers as people see and set them: ``sql/breakers.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows
from pgcron_ha.spec.text import duration_text

breakers: Final = Rows("list_breakers", limit=DEFAULT_LIMIT)
"""All of them, those that are not closed first; `waiting` counts up to 10,000 runs."""

breaker_of_run: Final = Rows("breaker_of_run", "run_id")
"""The breaker that a run waits for (`state` is set), and the one whose fallback took it."""

set_breaker: Final = Call[None](
    "set_breaker", "name", "failures", "within", "open_for", handlers=()
)
"""These settings count before what nodes declare. `handlers` share it with the one that it is
named after. InvalidInput.
"""

reset_breaker: Final = Call[bool]("reset_breaker", "name")
"""Closes it; what waits for it goes. Whether it was not closed. NotFound."""

delete_breaker: Final = Call[None]("delete_breaker", "name")
"""It is gone; a node that declares it makes it anew when it starts. NotFound."""


def circuit_words(row: Mapping[str, Any], now: datetime) -> str:
    """The state of a breaker that is not closed, from a row of `breakers` or `breaker_of_run`:
    ``the circuit of http:billing is open for another 25s: 5 failures in 1 m, last: …``.
    """
    left = (row["open_until"] - now).total_seconds()
    if row["state"] == "half_open":
        how = f"is tried by run {row['probe_run']}"
    elif left > 0:
        how = f"is open for another {duration_text(max(1, round(left)))}"
    else:
        how = "is to be tried by its next run"
    last = f", last: {row['last_error'][:200]}" if row["last_error"] else ""
    return f"the circuit of {row['name']} {how}: {row['reason']}{last}"


def diversion_words(row: Mapping[str, Any]) -> str:
    """Why a run has another handler or queue than requested, from a row of `breaker_of_run`."""
    asked = f"asked for {row['asked_handler']} in queue {row['asked_queue']}"
    return f"{asked}; the circuit of {row['name']} was open: {row['reason'][:300]}"
