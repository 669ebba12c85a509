"""Looks after runs that last: time limits, handlers that do not stop, and the start time of
those that are still at it.
"""

from __future__ import annotations

from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.link import Link
from pgcron_ha.engine.runner import Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.executors.base import Context, StopReason
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

    def __init__(self, link: Link, runner: Runner) -> None:
        super().__init__(INTERVAL_SECONDS)
        self._link = link
        self._runner = runner
        self._marked: set[tuple[int, int]] = set()
        self._told: set[tuple[int, int]] = set()

    async def run_once(self) -> float | None:
        """Stops what is over its limit, kills what ignores that, and marks what has begun."""
        for context in self._runner.overdue():
            self._runner.stop(context.run_id, StopReason.TIMED_OUT)
        for context in self._runner.kill_stopped():
            claim = (context.run_id, context.attempt)
            if claim not in self._told:
                self._told.add(claim)
                emit(RunIsStuck(context.run_id, context.handler, str(context.stop_reason)))
        await self._mark()
        return None

    async def _mark(self) -> None:
        now = monotonic()
        contexts = self._runner.contexts()
        fresh = [context for context in contexts if self._is_to_mark(context, now)][:MARK_BATCH]
        if fresh:
            await self._link.rows(
                "mark_started",
                run_ids=[context.run_id for context in fresh],
                tokens=[context.token for context in fresh],
                elapsed_seconds=[now - (context.started_monotonic or now) for context in fresh],
            )
            self._marked.update((context.run_id, context.attempt) for context in fresh)
        if self._marked or self._told:
            held = {(context.run_id, context.attempt) for context in contexts}
            self._marked &= held
            self._told &= held

    def _is_to_mark(self, context: Context, now: float) -> bool:
        return (
            context.started_monotonic is not None
            and now - context.started_monotonic > MARK_AFTER_SECONDS
            and (context.run_id, context.attempt) not in self._marked
        )
