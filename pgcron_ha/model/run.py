"""What a run may be, and every change it may make: the one table that code, SQL and documents are
held to.

A live run is a row of ``run``. An outcome exists only in ``history``: the statement that ends a run
moves the row, so nothing leaves an outcome. "Scheduled for later" and "waiting to retry" are
`RunState.READY` with a due time ahead.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunState(StrEnum):
    """States of a live run."""

    BLOCKED = "blocked"
    READY = "ready"
    RUNNING = "running"


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


# The comments of the statements name the same transitions; tests/house/test_states.py compares
# them.
TRANSITIONS: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        (RunState.READY, RunState.RUNNING),
        (RunState.READY, RunOutcome.SKIPPED),
        (RunState.READY, RunOutcome.SUPERSEDED),
        (RunState.READY, RunOutcome.EXPIRED),
        (RunState.READY, RunOutcome.CANCELLED),
        (RunState.READY, RunOutcome.UPSTREAM_FAILED),
        (RunState.READY, RunOutcome.DEAD),
        (RunState.READY, RunOutcome.SUCCEEDED),
        (RunState.BLOCKED, RunOutcome.CANCELLED),
        (RunState.RUNNING, RunOutcome.SUCCEEDED),
        (RunState.RUNNING, RunState.READY),
        (RunState.RUNNING, RunOutcome.DEAD),
        (RunState.RUNNING, RunOutcome.LOST),
        (RunState.RUNNING, RunOutcome.CANCELLED),
    }
)
