"""Duties of the materializer that people's control of schedules leaves to nodes, to any of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from pgcron_ha.db.link import Link, Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.schedule_spec import spec_of
from pgcron_ha.model.zone_data import version_in_force
from pgcron_ha.telemetry.control_events import ProbeSucceeded, SchedulePausedItself
from pgcron_ha.telemetry.log import emit

MOST: Final = 200
"""Schedules of one pass; the rest in the next."""

LATE_AFTER: Final = timedelta(seconds=2)
"""A fire that is older is late, and its schedule's catch-up policy decides."""


async def end_pauses(link: Link) -> int:
    """Resumes the schedules whose pause is over; how many this node did."""
    resumed = 0
    for row in await link.rows("overdue_pauses", at_most=MOST):
        answer = await link.rows("resume_overdue", schedule_id=row["schedule_id"])
        resumed += bool(answer[0]["is_resumed"])
    return resumed


async def judge_failures(link: Link) -> None:
    """Pauses schedules that have failed too often, and resumes those whose probe succeeded."""
    for row in await link.rows("failing_schedules", at_most=MOST):
        schedule = row["schedule_id"]
        verdict = (await link.rows("judge_failures", schedule_id=schedule))[0]["verdict"]
        if verdict == "resumed":
            emit(ProbeSucceeded(schedule))
        elif verdict is not None:
            emit(SchedulePausedItself(schedule, verdict))


async def chosen_probes(link: Link, horizon: float) -> list[dict[str, Any]]:
    """Schedules paused by failures, each with the fire that probes it and is due within `horizon`;
    after it is made, it is to be marked.
    """
    chosen = []
    for found in await link.rows("due_probes", at_most=MOST):
        row = dict(found)
        if row["probe_fire"] is None:
            try:
                after = max(row["probe_at"], row["now"] - LATE_AFTER)
                fire = spec_of(row).next(after)
            except PgcronError:  # another version wrote it
                continue
            given = {"schedule_id": row["schedule_id"], "probe_at": row["probe_at"]}
            answer = await link.rows("choose_probe", fire=fire, horizon=horizon, **given)
            if not answer or answer[0]["probe_fire"] is None:
                continue  # another node was faster, or it lies too far ahead
            row["probe_fire"] = answer[0]["probe_fire"]
        chosen.append(row)
    return chosen


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
        "tzdata": version_in_force(),
    }
