"""Looks after runs that last: time limits, the start time of those that are still at it, and
handlers that do not stop, which in the end only the end of the process stops in time. All is judged
by this node's monotonic clock.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import isolate
from pgcron_ha.engine.lease.lease import Lease, LeasePhase
from pgcron_ha.engine.run.claims import started_claims_of
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context, StopReason
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.events import RunIsStuck, RunOverruns, ServiceFailed
from pgcron_ha.telemetry.log import emit

INTERVAL_SECONDS: Final = 0.2
"""How late a time limit may be noticed."""

MARK_AFTER_SECONDS: Final = 0.5
"""Shorter runs say when they began when they end, and cost no write."""

MARK_BATCH: Final = 1000

LAST_RESORT_SECONDS: Final = 1.0
"""Between the kill of what ran without a lease and the end of the process, for handlers that only
need a moment; half of what is left of the lease at most, so that the end comes before its end.
"""

EXIT_WITHOUT_LEASE: Final = 71
"""The status of such a process."""


@dataclass(slots=True)
class _Limits:
    silence_timeout: float
    give_up_at: float
    last_sign: float


class TimeLimits:
    """Limits that few runs have: silence, and the time in all. A claim does not carry them: a run
    that lasts learns them when it is marked as started, so one without them, or a short one, costs
    nothing.
    """

    def __init__(self) -> None:
        self._limits: dict[Context, _Limits] = {}

    def learn(self, contexts: Sequence[Context], rows: Iterable[Row], now: float) -> None:
        """Takes what ``mark_started`` has answered about these runs."""
        by_run: Mapping[int, Context] = {context.run_id: context for context in contexts}
        for row in rows:
            silence, give_up_in = row["silence_timeout"], row["give_up_in"]
            if silence is not None or give_up_in is not None:
                context = by_run[row["id"]]
                self._limits[context] = _Limits(
                    math.inf if silence is None else silence,
                    math.inf if give_up_in is None else now + give_up_in,
                    context.started_monotonic or now,
                )

    def exceeded(self, held: Iterable[Context], now: float) -> list[tuple[Context, StopReason]]:
        """Those of the `held` runs that are over a limit, and over which; others are forgotten."""
        if not self._limits:
            return []
        known = set(held)
        self._limits = {each: limits for each, limits in self._limits.items() if each in known}
        found = []
        # What a call with several runs prints is a sign of all of them.
        signs = {
            each for each in self._limits if any(run.gave_sign for run in each._batch or [each])
        }
        for context, limits in self._limits.items():
            if context in signs:
                for run in context._batch or [context]:  # also those that have no limit
                    run.gave_sign = False
                limits.last_sign = now
            if now >= limits.give_up_at:
                found.append((context, StopReason.GIVEN_UP))
            elif now - limits.last_sign >= limits.silence_timeout:
                found.append((context, StopReason.SILENT))
        return found


_AT_ONCE: Final = 200
"""Long runs that one look compares with what was expected of them."""


async def notice_overruns(link: Link) -> None:
    """Report new overruns; the database decides which node reports each."""
    for row in await link.rows("notice_overruns", at_most=_AT_ONCE):
        emit(RunOverruns(row["run_id"], row["schedule"], row["expected"], row["taken"]))


@dataclass(eq=False)
class Watch(Service):
    """One look at everything that executes. ``_on_unresponsive`` gets a run that can't be ended and
    goes on ``_unresponsive_after`` seconds beyond its grace, again and again.
    """

    name: ClassVar[str] = "watch"
    _link: Link
    _runner: Runner
    _unresponsive_after: float = math.inf
    _on_unresponsive: Callable[[Context], None] = lambda context: None
    immune: int = 0
    """Slots of runs that go on although they were asked to stop and killed."""
    _marked: set[Context] = field(default_factory=set)
    _reported: dict[Context, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(INTERVAL_SECONDS)
        self._limits = TimeLimits()

    async def run_once(self) -> float | None:
        """Stops what is over its limit, kills what ignores that, and marks what has begun."""
        begun = [each for each in self._runner.contexts() if each.started_monotonic is not None]
        for context in begun:
            if context.timeout is not None and context.elapsed > context.timeout:
                self._runner.stop(context.run_id, StopReason.TIMED_OUT)
        for context, reason in self._limits.exceeded(begun, monotonic()):
            self._runner.stop(context.run_id, reason)
        self._look_at_immune(self._runner.kill_stopped())
        await self._mark(begun)
        return None

    def _look_at_immune(self, immune: Sequence[Context]) -> None:
        now, stuck = monotonic(), set(immune)
        # Slots: the runs of a batch have one, which is stuck when all of them are.
        calls = {id(each._batch): each._batch for each in immune if each._batch is not None}
        alone = sum(each._batch is None for each in immune)
        self.immune = alone + sum(stuck.issuperset(each) for each in calls.values())
        for context in immune:
            if context not in self._reported:
                self._reported[context] = now
                emit(RunIsStuck(context.run_id, context.handler, str(context.stop_reason)))
            if now - self._reported[context] >= self._unresponsive_after:
                self._on_unresponsive(context)

    async def _mark(self, begun: Sequence[Context]) -> None:
        fresh = [
            context
            for context in begun
            if context.elapsed > MARK_AFTER_SECONDS
            and context not in self._marked
            and not self.aside.waits(context)
        ]
        await isolate(fresh[:MARK_BATCH], self._mark_these, self._leave_unmarked, self._delay)
        if self._marked or self._reported or len(self.aside):
            held = set(self._runner.contexts())
            self._marked &= held
            self.aside.keep(held)
            self._reported = {each: at for each, at in self._reported.items() if each in held}

    async def _mark_these(self, fresh: Sequence[Context]) -> None:
        rows = await self._link.rows("mark_started", **started_claims_of(fresh))
        self._limits.learn(fresh, rows, monotonic())
        locked = {row["id"] for row in rows if not row["is_marked"]}
        for context in fresh:
            if context.run_id in locked:
                self.aside.put(context, f"run {context.run_id}", "somebody has locked its row")
            else:
                self._marked.add(context)
                self.aside.forget(context)

    async def _leave_unmarked(self, context: Context, error: PgcronError) -> None:
        self._marked.add(context)

    def _delay(self, context: Context, error: PgcronError) -> None:
        self.aside.put(context, f"run {context.run_id}", error)


def end_soon(runner: Runner, lease: Lease) -> None:
    """After a moment, unless what can't be killed has ended by then or the lease is back."""
    timer = threading.Timer(min(LAST_RESORT_SECONDS, 0.05 * lease.ttl), _end, (runner, lease))
    timer.daemon = True
    timer.start()


def _end(runner: Runner, lease: Lease) -> None:
    if lease.phase(boottime()) is LeasePhase.OVER and runner.kill_stopped(grace=0):
        message = "handlers do not stop although the lease is over; this process ends"
        emit(ServiceFailed("node", message))
        os._exit(EXIT_WITHOUT_LEASE)
