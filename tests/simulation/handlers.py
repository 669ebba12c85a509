"""Executors whose handlers take virtual time, fail, or ignore that they shall stop.

`py:` handlers live in the node's process: they freeze with it, look at their lease before each
effect unless they are stubborn, and can't be killed. `shell:` handlers are children under a
supervisor: they go on while the node is frozen, and are killed when the lease or the node ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Done,
    Failed,
    Feed,
    Interrupted,
    LogSink,
    Outcome,
    StopReason,
)
from tests.simulation.judge import Execution, Judge
from tests.simulation.world import Process

_STOP_SECONDS: Final = 0.05
_DYING_SECONDS: Final = 0.2
"""How long children outlive their node."""


class SimulatedExecutor:
    """An `Executor` of one kind."""

    def __init__(
        self,
        kind: str,
        process: Process,
        judge: Judge,
        ttl: float,
        done: Done,
        feed: Feed,
        sink: LogSink,
    ) -> None:
        self.kind = kind
        self.deadline = float("inf")
        self._process = process
        self._judge = judge
        self.ttl = ttl
        self._done = done
        self._feed = feed
        self._sink = sink
        self._live: dict[Context, Execution | None] = {}
        self._is_closing = False
        self._nothing_left: asyncio.Event | None = None
        # A plan of chance of its own: what handlers do does not depend on the order of callbacks.
        self._chance = random.Random(process.world.chance.random())

    @property
    def is_supervised(self) -> bool:
        return self.kind == "shell"

    def handlers(self) -> frozenset[str]:
        return frozenset({f"{self.kind}:work"})

    def start(self, contexts: Sequence[Context]) -> None:
        for context in contexts:
            self._live[context] = None
            self._process.handlers.call_soon_threadsafe(self._begin, context)

    def stop(self, context: Context, reason: StopReason) -> None:
        if context.stop_reason is None:
            context.stop_reason = reason
            self._process.handlers.call_soon_threadsafe(self._obey, context)

    def kill(self, context: Context) -> bool:
        if self.is_supervised:
            self._process.handlers.call_soon_threadsafe(self._interrupt, context)
        return self.is_supervised

    def renew_lease(self, deadline: float) -> None:
        self.deadline = deadline
        if self.is_supervised:
            world = self._process.world
            world.call_at(max(world.now, self._process.true_time(deadline)), self._lease_is_over)

    async def close(self, grace: float) -> None:
        """What has not stopped within the grace is ended with the handlers' loop."""
        self._is_closing = True
        for context in list(self._live):
            self.stop(context, StopReason.SHUTDOWN)
        if self._live:
            self._nothing_left = asyncio.Event()
            try:
                async with asyncio.timeout(grace):
                    await self._nothing_left.wait()
            except TimeoutError:
                pass
        for context in list(self._live):
            self._interrupt(context)

    def _begin(self, context: Context) -> None:
        if context not in self._live:
            return
        if context.stop_reason is not None:
            self._end(context, Interrupted(context.stop_reason, "stopped before it began"))
        elif self._process.boottime() >= self.deadline:
            self._end(context, Interrupted(StopReason.LEASE_LOST, "stopped before it began"))
        else:
            context.started_monotonic = self._process.monotonic()
            asked: dict[str, Any] = context.args
            execution = Execution(context, self._process, self, bool(asked.get("stubborn")))
            self._live[context] = execution
            self._judge.begins(execution)
            if asked.get("lines"):
                self._sink.write(context, "log", "at work")
            lasts = asked.get("seconds", 0.1) * (0.5 + self._chance.random())
            self._process.handlers.call_later(lasts, self._return, context)

    def _return(self, context: Context) -> None:
        execution = self._live.get(context)
        if execution is None or execution.has_ended:
            return
        may_act = self._process.boottime() < self.deadline and context.stop_reason is None
        if not may_act and not execution.is_stubborn and not self.is_supervised:
            reason = context.stop_reason or StopReason.LEASE_LOST
            self._end(context, Interrupted(reason, "it looked at its lease"))
            return
        fails: float = context.args.get("fails", 0.0)
        if self._chance.random() < fails:
            retry = self._chance.random() < 0.9
            self._end(context, Failed("ValueError", "it went wrong", retry=retry))
        else:
            self._judge.completes(execution)
            self._end(context, SUCCEEDED)

    def _obey(self, context: Context) -> None:
        execution = self._live.get(context)
        if execution is not None and not execution.is_stubborn:
            seconds = _STOP_SECONDS * self._chance.random()
            self._process.handlers.call_later(seconds, self._interrupt, context)

    def _interrupt(self, context: Context) -> None:
        if context in self._live:
            reason = context.stop_reason or StopReason.SHUTDOWN
            self._end(context, Interrupted(reason, "stopped"))

    def _end(self, context: Context, outcome: Outcome) -> None:
        execution = self._live.pop(context)
        if execution is not None:
            self._judge.ends(execution)
        self._done(context, outcome)
        if self._is_closing:
            if self._nothing_left is not None and not self._live:
                self._process.engine.call_soon_threadsafe(self._nothing_left.set)
            return
        following = self._feed()
        if following is not None:
            self.start([following])

    def _lease_is_over(self) -> None:
        """The supervisor's own clock; whether the node runs does not matter."""
        if self._process.boottime() < self.deadline - 1e-6 or not self._process.is_alive:
            return
        for context, execution in list(self._live.items()):
            if execution is not None and not execution.has_ended:
                self._judge.ends(execution)
                context.stop_reason = context.stop_reason or StopReason.LEASE_LOST
                self._process.handlers.post(0.001, self._interrupt, context)

    def process_ended(self) -> None:
        """The node is dead; its children die a moment later."""
        for execution in self._live.values():
            if execution is not None and not execution.has_ended:
                if self.is_supervised:
                    world = self._process.world
                    world.call_at(world.now + _DYING_SECONDS, self._judge.ends, execution)
                else:
                    self._judge.ends(execution)
