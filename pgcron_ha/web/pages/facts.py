"""What the overview is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What was read for the overview: rows as `pgcron_ha.db.queries.pages` documents them."""

    cluster: dict[str, Any]
    nodes: list[dict[str, Any]]
    due: list[dict[str, Any]]
    parked: list[dict[str, Any]]
    breakers: list[dict[str, Any]]
    broken: list[dict[str, Any]]
    """Circuit breakers that are not closed, and the runs that wait for them."""
    running: list[dict[str, Any]]
    recent: dict[str, Any]
    dead: list[dict[str, Any]]
    invalid: list[dict[str, Any]]
    paused_queues: list[dict[str, Any]]
    schedules: list[dict[str, Any]]
    """Those that may be unhealthy, and those that fire next."""
    blocking: list[dict[str, Any]]
    """Sessions that keep nodes waiting for a lock."""
    lanes: list[dict[str, Any]]
    """Ended runs of `schedules` within the window."""
