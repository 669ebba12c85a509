"""Makes the runs of backfills, a few at a time, on every node, without an owner.

A pass reads which backfills have room, computes their next instants without a lock, and takes them
by compare-and-set on how far the backfill has come. Two nodes at once are harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import known, one_by_one
from pgcron_ha.engine.materialize.previews import compute
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.backfill import count, following
from pgcron_ha.spec.spec import Spec, spec_of
from pgcron_ha.spec.zones import TZDATA
from pgcron_ha.telemetry.events import BackfillCantGoOn, BackfillIsOver, BackfillIsPaused
from pgcron_ha.telemetry.log import emit

BATCH: Final = 50
"""Backfills of one pass; the next one goes on behind them, and a lap ends with the last."""

MOST_AT_ONCE: Final = 1000
"""Instants of one backfill in one step, whatever is decided for them."""

FEWEST_AT_ONCE: Final = 16

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
        self._after = 0
        self._lap_is_busy = self._lap_goes_on = False
        self._most: dict[int, int] = {}
        self._waking: asyncio.TimerHandle | None = None

    def settled(self) -> None:
        """The database knows of ends of runs; some may be those of a backfill."""
        if self._is_busy and self._waking is None:
            loop = asyncio.get_running_loop()
            self._waking = loop.call_later(SETTLE_SECONDS, self._wake_up)

    async def run_once(self) -> float | None:
        """One step of each backfill that has something to do."""
        waiting = self.aside.waiting()
        rows = await self._link.rows(
            "open_backfills", after=self._after, at_most=BATCH, aside=waiting, tzdata=TZDATA
        )
        if not self._after and len(rows) < BATCH:  # these are all; what is over is forgotten
            self.aside.keep({*waiting, *(row["id"] for row in rows)})
        self._after = rows[-1]["id"] if len(rows) == BATCH else 0
        # A backfill may be paused for weeks: resuming it wakes this service.
        self._lap_is_busy |= any(row["state"] != "paused" or row["has_work"] for row in rows)
        self._is_busy |= self._lap_is_busy
        self._most = {row["id"]: self._most.get(row["id"], FEWEST_AT_ONCE) for row in rows}
        busy = [row for row in rows if row["has_work"]]
        await one_by_one(busy, self._step_one, self._leave_out)
        return 0 if self._after else self._end_lap()

    def _end_lap(self) -> float | None:
        """When the next one begins."""
        self._is_busy, goes_on = self._lap_is_busy, self._lap_goes_on
        self._lap_is_busy = self._lap_goes_on = False
        if goes_on:
            return 0
        return BUSY_SECONDS if self._is_busy else None

    async def _step_one(self, row: Row) -> None:
        self._lap_goes_on |= await self._step(row)
        self.aside.forget(row["id"])
        await asyncio.sleep(0)  # the instants of a backfill may take some milliseconds

    def _leave_out(self, row: Row, error: PgcronError) -> None:
        """Whatever is wrong with it, the others have their step; it is tried again alone."""
        what = f"backfill {row['id']} of schedule {row['schedule']!r}"
        self.aside.put(row["id"], what, error)

    async def _step(self, row: Row) -> bool:
        """Whether there is more to do at once."""
        planned = None
        try:
            spec = spec_of(row)
            if row["state"] == "open" and row["planned"] is None:
                planned = await _counted(row, spec)
            ahead = row["reached"], row["since"], row["until"], row["direction"]
            most = min(self._most[row["id"]] + max(row["room"], 0), MOST_AT_ONCE)
            instants, is_last = await compute(partial(following, spec, *ahead, most))
        except Exception as error:
            await self._give_up(row, known(error))
            instants, is_last, planned = [], False, None
        if planned is not None:  # whichever node is first
            await self._link.rows("plan_backfill", backfill=row["id"], planned=planned)
        of = {"backfill": row["id"], "reached": row["reached"]}
        found = await self._link.rows("step_backfill", **of, instants=instants, is_last=is_last)
        return bool(found) and self._judge(row, found[0], len(instants), is_last)

    def _judge(self, row: Row, done: Row, offered: int, is_last: bool) -> bool:
        if done["made"]:
            self._made([row["schedule_id"]])
        # A person who pauses it at the same moment has no problem.
        if done["state"] == "paused" and row["state"] == "open" and done["problem"]:
            emit(BackfillIsPaused(row["id"], row["schedule"], done["problem"]))
        if done["state"] in ("done", "stopped"):
            emit(BackfillIsOver(row["id"], row["schedule"], done["state"]))
            return False
        # Where most instants are left alone many are looked at in a step, else few are computed
        # for nothing.
        is_through = 0 < offered == done["taken"] and not is_last
        most = self._most[row["id"]] * (4 if is_through else 1) // (1 if is_through else 2)
        self._most[row["id"]] = min(max(most, FEWEST_AT_ONCE), MOST_AT_ONCE)
        return is_through

    async def _give_up(self, row: Row, error: PgcronError) -> None:
        reported = error.as_kept()
        if await self._link.rows("give_up_backfill", backfill=row["id"], error=reported):
            emit(BackfillCantGoOn(row["id"], row["schedule"], error.message))

    def _wake_up(self) -> None:
        self._waking = None
        self.wake()


async def _counted(row: Row, spec: Spec) -> int:
    """The instants of a backfill. In a thread, as many take seconds; stretch by stretch, as the
    process of a node that stops ends after its threads. Raises TooLarge.
    """
    planned, stretches = 0, count(spec, row["since"], row["until"])
    while (counted := await asyncio.to_thread(next, stretches, None)) is not None:
        planned += counted
    return planned
