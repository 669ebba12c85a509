"""How runs end.

A live run is a row of ``run``. An outcome exists only in ``history``: the statement that ends a run
moves the row, so nothing leaves an outcome. "Scheduled for later" and "waiting to retry" are
``ready`` with a due time ahead.
"""

from __future__ import annotations

from enum import StrEnum


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    LOST = "lost"
    UPSTREAM_FAILED = "upstream_failed"
