"""Parts of ``pgcron_ha.model`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.model.backfill import MOST_INSTANTS, count, following, measure
from pgcron_ha.model.plan import (
    COUNTED_EXACTLY,
    MOST_STEPS_OF_PLAN,
    CatchUp,
    Missed,
    MissedReason,
    Plan,
    delay_of,
    plan,
)
from pgcron_ha.model.run import RunOutcome, RunState
from pgcron_ha.model.storage import tables_of, total_growth

__all__ = [
    "COUNTED_EXACTLY",
    "MOST_INSTANTS",
    "MOST_STEPS_OF_PLAN",
    "CatchUp",
    "Missed",
    "MissedReason",
    "Plan",
    "RunOutcome",
    "RunState",
    "count",
    "delay_of",
    "following",
    "measure",
    "plan",
    "tables_of",
    "total_growth",
]
