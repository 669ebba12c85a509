"""Looks after runs that last: time limits, handlers that do not stop, and the start time of
those that are still at it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.isolation import isolate
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.engine.run.time_limits import TimeLimits
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context, StopReason
from pgcron_ha.telemetry.events import RunIsStuck
from pgcron_ha.telemetry.log import emit

INTERVAL_SECONDS: Final = 0.2
"""How late a time limit may be noticed."""

MARK_AFTER_SECONDS: Final = 0.5
"""Shorter runs say when they began when they end, and cost no write."""

MARK_BATCH: Final = 1000


class Watch(Service):
    """One look at everything that executes."""

    name: ClassVar[str] = "watch"

    def __init__(
        self,
        link: Link,
        runner: Runner,
        unresponsive_after: float = math.inf,
        on_unresponsive: Callable[[Context], None] | None = None,
    ) -> None:
        """`on_unresponsive` gets a run that can't be ended and goes on `unresponsive_after` seconds
        beyond its grace, again and again.
        """
        super().__init__(INTERVAL_SECONDS)
        self._link = link
        self._runner = runner
        self._marked: set[tuple[int, int]] = set()
        self._reported: dict[tuple[int, int], float] = {}
        self._unresponsive_after = unresponsive_after
        self._on_unresponsive = on_unresponsive
        self.immune = 0
        """Runs that go on although they were asked to stop and killed."""
        self._limits = TimeLimits()

    async def run_once(self) -> float | None:
        """Stops what is over its limit, kills what ignores that, and marks what has begun."""
        for context in self._runner.overdue():
            self._runner.stop(context.run_id, StopReason.TIMED_OUT)
        for context, reason in self._limits.exceeded(self._runner.contexts(), monotonic()):
            self._runner.stop(context.run_id, reason)
        self._look_at_immune(self._runner.kill_stopped())
        await self._mark()
        return None

    def _look_at_immune(self, immune: Sequence[Context]) -> None:
        now = monotonic()
        self.immune = len(immune)
        for context in immune:
            claim = (context.run_id, context.attempt)
            if claim not in self._reported:
                self._reported[claim] = now
                emit(RunIsStuck(context.run_id, context.handler, str(context.stop_reason)))
            if (
                self._on_unresponsive is not None
                and now - self._reported[claim] >= self._unresponsive_after
            ):
                self._on_unresponsive(context)

    async def _mark(self) -> None:
        now = monotonic()
        contexts = self._runner.contexts()
        fresh = [context for context in contexts if self._is_to_mark(context, now)][:MARK_BATCH]
        await isolate(fresh, self._mark_these, self._leave_unmarked, self._delay)
        if self._marked or self._reported or len(self.aside):
            held = {(context.run_id, context.attempt) for context in contexts}
            self._marked &= held
            self.aside.keep(set(contexts))
            self._reported = {claim: at for claim, at in self._reported.items() if claim in held}

    async def _mark_these(self, fresh: Sequence[Context]) -> None:
        now = monotonic()
        rows = await self._link.rows(
            "mark_started",
            run_ids=[context.run_id for context in fresh],
            tokens=[context.token for context in fresh],
            elapsed_seconds=[now - (context.started_monotonic or now) for context in fresh],
        )
        self._limits.learn(fresh, rows, monotonic())
        locked = {row["id"] for row in rows if not row["is_marked"]}
        for context in fresh:
            if context.run_id in locked:
                self.aside.put(context, f"run {context.run_id}", "somebody has locked its row")
            else:
                self._marked.add((context.run_id, context.attempt))
                self.aside.forget(context)

    async def _leave_unmarked(self, context: Context, error: PgcronError) -> None:
        self._marked.add((context.run_id, context.attempt))

    def _delay(self, context: Context, error: PgcronError) -> None:
        self.aside.put(context, f"run {context.run_id}", error)

    def _is_to_mark(self, context: Context, now: float) -> bool:
        return (
            context.started_monotonic is not None
            and now - context.started_monotonic > MARK_AFTER_SECONDS
            and (context.run_id, context.attempt) not in self._marked
            and not self.aside.waits(context)
        )
