"""What is said when no living node takes the runs of a schedule: it may be a slip of the hand."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any


def not_offered(handler: str, queue: str, offered: Mapping[str, Any]) -> str | None:
    """A sentence, with the nearest handler that is offered; None: some node takes its runs.

    `offered` of `pgcron_ha.db.queries.pages.schedules.offered`.
    """
    if offered["is_served"]:
        return None
    said = f"No living node offers {handler[:206]} for queue {queue[:100]}: its runs would wait"
    if handler in offered["handlers"]:
        return f"{said} until a node with that handler serves that queue, and has what it requires."
    near = get_close_matches(handler, offered["handlers"], n=1)
    return f"{said} until one does." + (f" Did you mean {near[0]}?" if near else "")
