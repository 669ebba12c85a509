"""Circuit breakers as people see and set them: ``sql/breakers.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, why_blocked
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


async def reported_of_run(connection: Any, run_id: int, **options: Any) -> dict[str, str]:
    """In words: what it ``waits_for`` when it is due, as `why_run_waits` says it, and from what
    breaker it was ``diverted``.
    """
    now = datetime.now(UTC)
    words = {
        "waits_for" if row["state"] else "diverted": circuit_words(row, now)
        if row["state"]
        else diversion_words(row)
        for row in await breaker_of_run(connection, run_id, **options)
    }
    if "waits_for" not in words:
        reason = await why_blocked(connection, run_id, **options)
        words |= {"waits_for": reason} if reason else {}
    return words


async def why_run_waits(connection: Any, run_id: int, **options: Any) -> str | None:
    """Why nobody takes this run, which is due: its handler's breaker, that nobody offers it, or
    that claims fail; None when somebody may.
    """
    return (await reported_of_run(connection, run_id, **options)).get("waits_for")


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
