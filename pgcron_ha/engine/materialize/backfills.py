"""Makes the runs of backfills, a few at a time, on every node, without an owner.

A pass reads which backfills have room, computes their next instants without a lock, and takes them
by compare-and-set on how far the backfill has come. Two nodes at once are harmless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import one_by_one
from pgcron_ha.engine.materialize.previews import compute
from pgcron_ha.engine.service import Service, known
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.backfill import count, following
from pgcron_ha.spec.spec import Spec, spec_of
from pgcron_ha.spec.zones import TZDATA
from pgcron_ha.telemetry.events import BackfillCantGoOn, BackfillIsOver, BackfillIsPaused
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Backfills of one pass; those that are paused come last."""

INSTANTS_AT_ONCE: Final = 100
"""Of one backfill in one step, whatever is decided for them, unless it has room for more runs."""

IDLE_SECONDS: Final = 5.0
BUSY_SECONDS: Final = 1.0
"""Between looks while a backfill is under way: its runs may end on another node."""

SETTLE_SECONDS: Final = 0.02
"""Ends of runs are gathered for this time before the next runs are made."""


class Backfills(Service):
    """Keeps as many runs of each backfill open as it may have."""

    name: ClassVar[str] = "backfills"

    def __init__(self, link: Link, made: Callable[[Sequence[int]], None] = lambda _: None) -> None:
        """`made` gets schedules that have new runs."""
        super().__init__(IDLE_SECONDS)
        self._link = link
        self._made = made
        self._is_busy = False
        self._goes_on = False
        self._waking: asyncio.TimerHandle | None = None

    def settled(self) -> None:
        """The database knows of ends of runs; some may be those of a backfill."""
        if self._is_busy and self._waking is None:
            loop = asyncio.get_running_loop()
            self._waking = loop.call_later(SETTLE_SECONDS, self._wake_up)

    async def run_once(self) -> float | None:
        """One step of each backfill that has something to do."""
        waiting = self.aside.waiting()
        rows = await self._link.rows("open_backfills", at_most=BATCH, aside=waiting, tzdata=TZDATA)
        if len(rows) < BATCH:  # these are all; what is over is forgotten
            self.aside.keep({row["id"] for row in rows} | set(self.aside.waiting()))
        # A backfill may be paused for weeks: resuming it wakes this service.
        self._is_busy = any(row["state"] != "paused" or row["has_work"] for row in rows)
        self._goes_on = False
        busy = [row for row in rows if row["has_work"]]
        await one_by_one(busy, self._step_one, self._leave_out)
        if self._goes_on:
            return 0
        return BUSY_SECONDS if self._is_busy else None

    async def _step_one(self, row: Row) -> None:
        self._goes_on |= await self._step(row)
        self.aside.forget(row["id"])

    def _leave_out(self, row: Row, error: Exception) -> None:
        """Whatever is wrong with it, the others have their step; it is tried again alone."""
        what = f"backfill {row['id']} of schedule {row['schedule']!r}"
        self.aside.put(row["id"], what, known(error).message)

    async def _step(self, row: Row) -> bool:
        """Whether there is more to do at once."""
        planned = None
        try:
            spec = spec_of(row)
            if row["state"] == "open" and row["planned"] is None:
                planned = await _counted(row, spec)
            ahead = row["reached"], row["since"], row["until"], row["direction"]
            most = max(row["room"], INSTANTS_AT_ONCE)
            instants, is_last = await compute(partial(following, spec, *ahead, most))
        except Exception as error:
            await self._give_up(row, known(error))
            instants, is_last, planned = [], False, None
        if planned is not None:  # whichever node is first
            await self._link.rows("plan_backfill", backfill=row["id"], planned=planned)
        found = await self._link.rows(
            "step_backfill",
            backfill=row["id"],
            reached=row["reached"],
            instants=instants,
            is_last=is_last,
        )
        if found and found[0]["made"]:
            self._made([row["schedule_id"]])
        if found and found[0]["state"] == "paused" and row["state"] == "open":
            await self._report_why(row)
        if found and found[0]["state"] in ("done", "stopped"):
            emit(BackfillIsOver(row["id"], row["schedule"], found[0]["state"]))
            return False
        return bool(found) and 0 < len(instants) == found[0]["taken"] and not is_last

    async def _report_why(self, row: Row) -> None:
        """Report why the step paused it. A person's pause at the same moment has no error."""
        for paused in await self._link.rows("one_backfill", backfill=row["id"]):
            if paused["error"] is not None:
                why = json.loads(paused["error"])["message"]
                emit(BackfillIsPaused(row["id"], row["schedule"], why))

    async def _give_up(self, row: Row, error: PgcronError) -> None:
        reported = error.as_kept()
        if await self._link.rows("give_up_backfill", backfill=row["id"], error=reported):
            emit(BackfillCantGoOn(row["id"], row["schedule"], error.message))

    def _wake_up(self) -> None:
        self._waking = None
        self.wake()


async def _counted(row: Row, spec: Spec) -> int:
    """The instants of a backfill. Raises TooLarge."""
    planned = 0
    for counted in count(spec, row["since"], row["until"]):
        planned += counted
        await asyncio.sleep(0)
    return planned
