"""Which overlap policies go together, before the database is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.errors import InvalidInput

OVERLAPS: Final = ("skip", "allow", "queue", "replace", "terminate")
QUEUE_DROPS: Final = ("newest", "oldest")
MOST_RUNNING: Final = 1000
MOST_QUEUED: Final = 1000


def check_overlap(policies: Mapping[str, Any]) -> None:
    """Of the policies of one schedule those that say what overlaps; None or absent: as it is.

    0 (or no text) takes back what was said. What is only wrong beside what the schedule says
    already is found by the database. Raises InvalidInput.
    """
    overlap = policies.get("overlap")
    if overlap is not None:
        checks.choice("overlap policy", overlap, OVERLAPS)
    running = _count(
        "max_running",
        policies.get("max_running"),
        MOST_RUNNING,
        "So many runs of a schedule may execute at once: 1 to 1000.",
    )
    queued = _count(
        "max_queued",
        policies.get("max_queued"),
        MOST_QUEUED,
        "So many runs may wait with overlap queue: 1 to 1000.",
    )
    drops = policies.get("queue_drops") or None
    if drops is not None:
        checks.choice("queue_drops", drops, QUEUE_DROPS)
    depends = policies.get("depends_on_previous")
    if depends is not None and not isinstance(depends, bool):
        raise InvalidInput(f"depends_on_previous {depends!r:.100} is not true or false")
    if depends and (overlap not in (None, "skip", "queue") or running > 1):
        raise InvalidInput(
            f"depends_on_previous with overlap '{overlap}' and max_running {running or 1}",
            "Whether the fire before it succeeded is known when it is over.",
            "Use overlap 'skip' or 'queue', and leave max_running out.",
        )
    if overlap is None:
        return
    if overlap in ("replace", "terminate") and running > 1:
        raise InvalidInput(
            f"overlap {overlap} with max_running {running}",
            "A run that takes the place of the last one runs alone.",
            "Leave max_running out (0 takes it back), or use overlap 'queue'.",
        )
    if overlap != "queue" and (queued or drops):
        raise InvalidInput(
            f"{'max_queued' if queued else 'queue_drops'} with overlap '{overlap}'",
            "Only with overlap queue is there a bound to what waits.",
            "Use overlap 'queue', or take them back: max_queued 0, queue_drops ''.",
        )
    _check_late_fires(overlap, policies.get("catchup"))


def check_run_overlap(overlap: str | None) -> str | None:
    """Another policy than the schedule's, for one run; None: the schedule's."""
    return None if overlap is None else checks.choice("overlap policy", overlap, OVERLAPS)


def _check_late_fires(overlap: str, catchup: Any) -> None:
    if catchup not in (None, "latest", "none") and overlap not in ("allow", "queue"):
        raise InvalidInput(
            f"catch-up policy '{str(catchup)[:100]}' with overlap '{overlap}'",
            "Late fires are due together, and all but one of them would not run.",
            "Use overlap 'queue', so that they run one after the other, or 'allow'; "
            "or catch-up 'latest'.",
        )


def _count(what: str, value: Any, most: int, rule: str) -> int:
    return 0 if value in (None, 0) else checks.whole_number(what, value, 1, most, rule)
