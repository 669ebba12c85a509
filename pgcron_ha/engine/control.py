"""Duties of the materializer that people's control of schedules leaves to nodes, to any of them."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.link import Link

MOST: Final = 200
"""Schedules of one pass; the rest in the next."""


async def end_pauses(link: Link) -> int:
    """Resumes the schedules whose pause is over; how many this node did."""
    resumed = 0
    for row in await link.rows("overdue_pauses", at_most=MOST):
        answer = await link.rows("resume_overdue", schedule_id=row["schedule_id"])
        resumed += bool(answer[0]["is_resumed"])
    return resumed
