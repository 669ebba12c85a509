"""Backfills: requested, listed, paused and stopped: ``sql/backfills.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.overview import schedule as schedule_of
from pgcron_ha.db.queries.rows import Row, Rows

DIRECTIONS: Final = ("forward", "backward")
IF_RAN: Final = ("skip", "failed", "all")
STATES: Final = ("open", "paused", "stopping", "stopped", "done")

backfill: Final = Call[int](
    "backfill", "schedule", "since", until=None, direction="forward", parallelism=1, if_ran="skip"
)
"""The id of a backfill of the schedule's instants from `since` on and before `until` (now).

`overlap` and `args` None mean the schedule's; `planned` is how many instants there are, if it is
known. InvalidInput, TooLarge, NotFound; Conflict with one that is under way.
"""

pause_backfill: Final = Call[None]("pause_backfill", "backfill_id")
"""Makes no more runs until it is resumed. NotFound, Conflict when it is over."""

resume_backfill: Final = Call[None]("resume_backfill", "backfill_id")
"""Goes on. NotFound, Conflict when it is over."""

stop_backfill: Final = Call[int]("stop_backfill", "backfill_id", note=None)
"""Makes no more runs and cancels those that wait: how many. NotFound, Conflict when over."""

decided_between: Final = Call[int]("decided_between", "schedule_id", "since", "until")
"""How many instants of the range the ledger has a decision of its own for."""

backfills: Final = Rows("list_backfills", limit=DEFAULT_LIMIT)
"""Backfills with how far they are, the newest first; of one `schedule_id`, in one `state`, of
schedules with an `owner` (or of its queues) or `tags`.
"""


async def backfills_of(connection: Any, schedule: str | None, **options: Any) -> list[Row]:
    """As `backfills`, of the schedule of this name (None: of all). NotFound."""
    if schedule is not None:
        found = await schedule_of(connection, schedule, schema=options["schema"])
        options["schedule_id"] = found["id"]
    return await backfills(connection, **options)


runs_of_backfill: Final = Rows("runs_of_backfill", "backfill", limit=DEFAULT_LIMIT)
"""Its open runs, then the last ones that did not succeed; `state` is theirs or the outcome."""

one_backfill: Final = Rows("one_backfill", "backfill").existing(
    "backfill {} does not exist",
    "It was never requested, or was forgotten with the ledger of its time.",
    "`pgcron-ha backfills list` lists them.",
)
"""One of them. NotFound."""
