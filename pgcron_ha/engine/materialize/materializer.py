"""Turns schedules into runs ahead of time, on every node, without an owner.

A pass reads schedules that are due for a decision, computes fires in Python without a lock, and
commits by compare-and-set: a schedule that was edited, or that another node decided meanwhile, is
not changed. Two nodes at once are harmless. A node whose tzdata is older than another's decides
nothing.

No schedule delays another: one that can't be read, or whose runs the database refuses, is marked
invalid with the reason; one that is locked waits in `aside`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final

from pgcron_ha.db.driver.link import Link, NoPartition, Row
from pgcron_ha.engine.batches import impatience, isolate, known
from pgcron_ha.engine.lease.session import LATE_AFTER
from pgcron_ha.engine.materialize.previews import AT_ONCE, compute, write_previews
from pgcron_ha.engine.materialize.schedule_duties import (
    Decision,
    ScheduleDuties,
    materialize_parameters,
)
from pgcron_ha.engine.run.counters import count_decided
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError, Refused, SchemaError
from pgcron_ha.model.plan import Plan, delay_of, plan
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.telemetry.events import ScheduleIsInvalid
from pgcron_ha.telemetry.log import emit
from pgcron_ha.version import installed_version

BATCH: Final = 200
"""Schedules of one statement; also how long the engine's loop computes without a break."""

FIRES_PER_SCHEDULE: Final = 1000
"""Fires that one schedule gets in one statement; the rest in the next pass."""

FIRES_PER_BATCH: Final = 5000
"""Which the schedules of a statement share alike."""

INTERVAL_SECONDS: Final = 5.0

RETRY_SECONDS: Final = 60.0
"""After the database refused a schedule's runs, until they are tried again."""

LOOK_AGAIN_SECONDS: Final = 0.5
"""When nothing of a whole batch moved: other nodes are at it, or its rows are locked. Or when a
schedule has had its fire of this second.
"""


_UNMOVED: Final = PgcronError("its row is locked by another session, or its watermark is far away")


class Materializer(Service):
    """Decides fires up to the horizon."""

    name: ClassVar[str] = "materializer"

    def __init__(
        self, link: Link, horizon: float, made: Callable[[Sequence[int]], None] = lambda _: None
    ) -> None:
        """`horizon` in seconds: how far ahead a fire becomes a run. `made` gets schedules that have
        new runs which wait for an overlap slot.
        """
        super().__init__(min(INTERVAL_SECONDS, horizon / 4))
        self._link = link
        self._horizon = horizon
        self._made = made
        self._duties = ScheduleDuties(link, horizon, self.aside, made)
        self._unmoved: dict[int, datetime] = {}

    async def run_once(self) -> float | None:
        """One batch of schedules. Begins when half of the horizon is used up, so that frequent
        schedules are decided in bulk.
        """
        try:
            goes_on = await self._duties.look()
        except DatabaseUnavailable:
            raise
        except Exception:
            await self._materialize()  # what one of them asks for holds up no fire of the others
            raise
        wait = await self._materialize()
        if wait is None and self._duties.waits_for_second:
            wait = LOOK_AGAIN_SECONDS
        return 0 if goes_on else wait

    async def _materialize(self) -> float | None:
        if self._duties.is_behind:
            return None
        aside = self.aside.waiting_of("fires")
        rows = await self._link.rows(
            "due_cursors", refill=self._horizon / 2, at_most=BATCH, aside=aside
        )
        self.aside.forget_absent("preview", set())  # janitors write those that are requested
        if len(rows) < BATCH:
            self.aside.forget_absent("fires", {row["schedule_id"] for row in rows})
        if not rows:
            return None
        share = min(FIRES_PER_SCHEDULE, max(1, FIRES_PER_BATCH // len(rows)))
        decisions = await self._decide(rows, share)
        if not decisions:
            return 0
        moved = await self._commit(decisions)
        self._leave_out_locked(decisions, moved)
        new = [row["schedule_id"] for row, _, _ in decisions if row["status"] == "unchecked"]
        if moved and 0 < len(new) <= AT_ONCE:
            await write_previews(self._link, self.aside, new)
        is_short = any(planned.is_cut or len(planned.fires) >= share for _, planned, _ in decisions)
        if len(rows) < BATCH and not is_short:
            return None
        return 0 if moved else LOOK_AGAIN_SECONDS

    async def _commit(self, decisions: Sequence[Decision]) -> set[int]:
        """The schedules that were moved on. What failed before goes apart from the others."""
        again = [each for each in decisions if self._failed_before(each[0])]
        first = [each for each in decisions if not self._failed_before(each[0])]
        answers = await isolate(first, self._send, self._refused, self._delayed)
        try:
            answers += await isolate(again, self._send, self._refused, self._delayed)
        except (Refused, SchemaError) as error:
            for each in again:
                await self._refused(each, error)
        for counts in answers:
            count_decided(counts)
            self._made(counts["blocked"])
        return {schedule for counts in answers for schedule in counts["moved"]}

    def _failed_before(self, row: Row) -> bool:
        return row["status"] == "invalid" or ("fires", row["schedule_id"]) in self.aside

    async def _send(self, part: Sequence[Decision]) -> Row:
        columns = materialize_parameters(part)
        try:
            return (await self._link.rows("materialize", **columns))[0]
        except NoPartition:
            await self._link.rows("reopen_ledger", instants=sorted(set(columns["fires"])))
            return (await self._link.rows("materialize", **columns))[0]

    async def _refused(self, decision: Decision, error: PgcronError) -> None:
        if isinstance(error, NoPartition):  # the janitor makes those that are to come
            self._delayed(decision, error)
        else:
            await self._mark_invalid(decision[0], error, RETRY_SECONDS)

    def _delayed(self, decision: Decision, error: PgcronError) -> None:
        row = decision[0]
        self.aside.put(("fires", row["schedule_id"]), f"schedule {row['name']!r}", error)

    def _leave_out_locked(self, decisions: Sequence[Decision], moved: set[int]) -> None:
        """Set aside schedules that did not move twice and that no other node decided: locked."""
        for schedule in moved:
            self.aside.forget(("fires", schedule))
        before, self._unmoved = self._unmoved, {}
        for decision in decisions:
            row = decision[0]
            schedule, watermark = row["schedule_id"], row["watermark"]
            if schedule in moved or self.aside.waits(("fires", schedule)):
                continue
            if before.get(schedule) == watermark and row["status"] != "invalid":
                self._delayed(decision, _UNMOVED)
            else:
                self._unmoved[schedule] = watermark

    async def _decide(self, rows: Sequence[Row], share: int) -> list[Decision]:
        decided: list[Decision] = []
        for number, row in enumerate(rows):
            try:
                planned = await compute(partial(decide, row, self._horizon, share))
                decided.append((row, *planned))
            except Exception as error:
                await self._mark_invalid(row, known(error))
            if number % 25 == 24:
                await asyncio.sleep(0)  # a cold spec costs some tenths of a millisecond
        return decided

    async def _mark_invalid(
        self, row: Row, error: PgcronError, retry_after: float | None = None
    ) -> None:
        kept = json.dumps({**json.loads(error.as_kept()), "judge": judge()})
        of = {"schedule_id": row["schedule_id"], "generation": row["generation"]}
        try:
            with impatience():
                marked = await self._link.rows(
                    "mark_invalid", **of, error=kept, retry_after=retry_after
                )
        except DatabaseUnavailable:
            raise
        except PgcronError as obstacle:  # its row itself is locked, or broken
            more = f"{error.message}; it can't be marked invalid: {obstacle.message}"
            self.aside.put(("fires", row["schedule_id"]), f"schedule {row['name']!r}", more)
            return
        self.aside.forget(("fires", row["schedule_id"]))
        if marked and row["status"] != "invalid":
            emit(ScheduleIsInvalid(row["name"], error.message))


def judge() -> str:
    """This program's version, for a schedule that it can't read: another version may."""
    return f"pgcron_ha {installed_version()}"


def decide(
    row: Row | dict[str, Any], horizon: float, most: int = FIRES_PER_SCHEDULE
) -> tuple[Plan, str]:
    """What the schedule of a ``due_cursors`` row owes, `most` fires of it at most, and the
    canonical text of its spec. Raises PgcronError for a bad spec.
    """
    spec = spec_of(row)
    now: datetime = row["now"]
    if spec.assets:  # their updates decide
        return Plan([], [], row["watermark"], None), spec.canonical
    if row["max_runs"] is not None:
        most = min(most, row["max_runs"] - row["runs_made"])
        if most <= 0:  # unless one is given back meanwhile: the statement looks again
            return Plan([], [], row["watermark"], spec.next(row["watermark"])), spec.canonical
    end = now + timedelta(seconds=horizon)
    late = row["catchup"], row["catchup_window"], LATE_AFTER
    return plan(spec, row["watermark"], now, end, *late, most, delay_of(row)), spec.canonical
