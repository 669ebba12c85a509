"""Duties of the materializer that people's control of schedules leaves to nodes, to any of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from pgcron_ha.db.link import Link, Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.schedule_spec import spec_of

MOST: Final = 200
"""Schedules of one pass; the rest in the next."""


async def end_pauses(link: Link) -> int:
    """Resumes the schedules whose pause is over; how many this node did."""
    resumed = 0
    for row in await link.rows("overdue_pauses", at_most=MOST):
        answer = await link.rows("resume_overdue", schedule_id=row["schedule_id"])
        resumed += bool(answer[0]["is_resumed"])
    return resumed


async def early_fires(link: Link, horizon: float) -> list[Row]:
    """Fires that were moved ahead of their time and are due soon; not those that are none (any
    more): the schedule was edited, or SQL was told of an instant it could not judge.
    """
    rows = await link.rows("early_fires", horizon=horizon, at_most=MOST)
    return [row for row in rows if is_fire(row, row["fire_at"])]


def is_fire(row: Row | dict[str, Any], instant: datetime) -> bool:
    """Whether the schedule of this row fires then, as it stands; no if nobody here can read it."""
    try:
        return spec_of(row).next(instant - timedelta(microseconds=1)) == instant
    except PgcronError:
        return False


def one_fire(row: Row | dict[str, Any], fire: datetime, canonical: str) -> dict[str, Any]:
    """The parameters of ``materialize`` for a fire ahead of the cursor, which stays where it is."""
    return {
        "schedule_ids": [row["schedule_id"]],
        "generations": [row["generation"]],
        "watermarks": [row["watermark"]],
        "new_watermarks": [row["watermark"]],
        "next_fires": [row["next_fire"]],
        "canonicals": [canonical],
        **{f"dropped_{column}": [] for column in ("ids", "firsts", "lasts", "counts", "reasons")},
        "max_runs": [row["max_runs"]],
        "counted_ids": [] if row["max_runs"] is None else [row["schedule_id"]],
        "counted_fires": [] if row["max_runs"] is None else [fire],
        "delays": "{}",  # who moves a fire says when it is due
        "fire_ids": [row["schedule_id"]],
        "fires": [fire],
    }
