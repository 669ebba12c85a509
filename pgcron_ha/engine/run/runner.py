"""The runs this node holds: waiting for a slot, executing, or ending.

Executors call `done` and `feed` from their own threads, so a burst of short runs needs no hop
through the engine's loop for each of them. What ended is collected in batches on the loop and given
to the completer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import cycle
from operator import itemgetter
from time import monotonic
from typing import Any, Final

from pgcron_ha.db.driver.link import Row
from pgcron_ha.engine.batches import unforeseen
from pgcron_ha.engine.lease.reconcile import Held
from pgcron_ha.engine.run.slots import Slots
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import (
    DEFAULT_POLICY,
    SUCCEEDED,
    Context,
    Executor,
    HandlerPolicy,
    Interrupted,
    Outcome,
    StopReason,
)
from pgcron_ha.executors.contract.coroutines import post
from pgcron_ha.operating_system import boottime

COLLECT_SECONDS: Final = 0.002
"""How long ends may gather while other runs wait here for a slot."""

_OF_A_CLAIM: Final[Callable[[Row], tuple[Any, ...]]] = itemgetter(
    *("id", "uuid", "handler", "args", "attempt", "max_attempts", "queue", "priority"),
    *("schedule", "fire_time", "token", "fence", "timeout", "delivery", "origin", "results"),
    "largest_log",
)
"""The parameters of a `Context`, as a claimed row names them."""

Ended = tuple[Context, Outcome, float]
"""Context, outcome, and the `time.monotonic` instant at which the handler had stopped."""


class Runner:
    """Slots, the queue before them, and the bookkeeping of what is held."""

    def __init__(
        self, slots: int, may_start: Callable[[], bool], collect: Callable[[list[Ended]], None]
    ) -> None:
        """`may_start` is asked before each handler begins; `collect` gets what ended, on the
        engine's loop.
        """
        self.slots = Slots(slots)
        self._may_start = may_start
        self._collect = collect
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, Context] = {}
        self._ended: deque[Ended] = deque()
        self._is_collecting = False
        self._is_starting = False
        self._stopped_at: dict[int, float] = {}
        self._failure: BaseException | None = None
        self.prepare: Callable[[list[Context]], None] = self.begin
        """Gets runs that were tried before, when they have their slots; `begin` is to follow."""
        self.owed = 0
        """Slots that new runs don't get, since too many ends are not acknowledged."""
        self.use({})

    def use(
        self, executors: Mapping[str, Executor], policies: Mapping[str, HandlerPolicy] | None = None
    ) -> None:
        """The executors by what their feeds are called; before the first run is accepted.
        `policies` are those of handlers that do not have the default, by full name.
        """
        self._executors = executors
        self._kinds = {name: kind for kind, each in executors.items() for name in each.handlers()}
        self._policies = policies or {}
        self._batches = {name: each.batch for name, each in self._policies.items() if each.batch}
        # By kind, or by handler that takes batches.
        lines = (*executors, *self._batches)
        self._waiting: dict[str, deque[Context]] = {line: deque() for line in lines}
        owned = [(line, self._kind(line)) for line in lines]  # with the executor's name
        self._turns = cycle([owned[at:] + owned[:at] for at in range(len(owned))])

    # What the engine's loop asks and does.

    @property
    def executing(self) -> int:
        """Slots of runs whose handler has been given to an executor and has not stopped."""
        return self.slots.used

    @property
    def free_slots(self) -> int:
        """Slots that no run has, not counting those that waiting runs will take; below 0 while the
        database has to take ends first.
        """
        return self.slots.number - self.executing - self.owed

    @property
    def waiting(self) -> int:
        """Slots that claimed runs wait for."""
        return sum(map(len, self._waiting.values())) + sum(tuple(self.slots.heavy.values()))

    def runs_on(self) -> bool:
        """Whether a handler has begun and has not stopped."""
        held = self._held.values()
        return any(each.started_monotonic is not None and not each.has_ended for each in held)

    def held(self) -> dict[int, Held]:
        """What is held, for the comparison with a beat."""
        return {
            run: Held(context.token, context.held_since, context.has_ended)
            for run, context in self._held.items()
        }

    def holds(self, run: int) -> bool:
        """Whether this run is held, or its end is not acknowledged."""
        return run in self._held

    def contexts(self) -> list[Context]:
        """Every held run in its current state, also those whose end is not acknowledged."""
        return list(self._held.values())

    def check_executors(self) -> None:
        """Raises PgcronError when one can serve no run any more: its runs would never end."""
        if self._failure is not None:
            raise PgcronError(
                "a thread that executes runs has ended",
                unforeseen(self._failure),
                "The node ends, so that another process takes its place. Please report it.",
            )

    def accept(self, rows: Sequence[Row], weights: Mapping[int, int] | None = None) -> None:
        """Takes claimed rows and starts what has a slot. `weights` names the runs that take several
        slots: one that waits for them keeps what came after it from taking any. A workflow takes
        none.
        """
        now = boottime()
        for row in rows:
            context = Context(*_OF_A_CLAIM(row))
            if self._policies and (policy := self._policies.get(context.handler)):
                context.keeps_args, context.keeps_result = policy.keep_args, policy.keep_result
                # What holds a place of a schedule or a key must not go on without a lease.
                context.outlives_lease = (
                    policy.on_lease_loss == "finish"
                    and context.delivery != "at_most_once"
                    and row["overlap_of"] is None
                    and row["concurrency_key"] is None
                )
            self._held[context.run_id] = context
            context.held_since = now
            self._stopped_at.pop(context.run_id, None)  # what an earlier claim was asked
            if context.handler.startswith("workflow:"):
                self.done(context, SUCCEEDED)  # nothing executes: its report makes its steps
            elif weights and context.run_id in weights:
                self.slots.wait(context, weights[context.run_id])
            elif _was_tried(context) and row["lost_early"] is not None:
                self.slots.wait(context, 1)
            else:
                self._line(context).append(context)
        self.start_waiting()

    def start_waiting(self) -> None:
        """Gives waiting runs to their executors as far as there are slots, and a lease."""
        self._is_starting = False
        if not self._may_start() or (self.slots.heavy and not self._start_heavy()):
            return
        for line in self._waiting:
            begun = []
            while self.slots.take():
                if (context := self._take(line)) is None:
                    self.slots.free()
                    break
                begun.append(context)
            if begun:
                self._executor(begun[0]).start(begun)

    def _start_soon(self) -> None:
        """Slots got free: the engine's loop starts what waits. From any thread."""
        if not self._is_starting:
            self._is_starting = True
            post(self._loop, self.start_waiting)

    def _start_heavy(self) -> bool:
        """Whether none is left. A run that was tried before is prepared with care."""
        begun: list[Context] = []
        retried: list[Context] = []
        while context := self.slots.take_heavy():
            (retried if _was_tried(context) else begun).append(context)
        self.begin(begun)
        if retried:
            self.prepare(retried)
        return not self.slots.heavy

    def _feed_heavy(self, kind: str) -> Context | None:
        """For a slot that became free: a run that has waited for it and others."""
        self.slots.free()
        context = self.slots.take_heavy(_was_tried) if self._may_start() else None
        if self.executing < self.slots.number:
            self._start_soon()  # there may be room for others
        return self._given(context, self._kind(context.handler), kind) if context else None

    def _given(self, context: Context, owner: str, kind: str) -> Context | None:
        """What the feed of `kind` returns of a run of the executor `owner`. Of another it is None:
        the slot goes with the run, and only the engine's loop starts runs of others.
        """
        if owner == kind:
            return context
        post(self._loop, self._executors[owner].start, [context])
        return None

    def begin(self, contexts: Iterable[Context]) -> None:
        """Gives runs that have their slots to their executors; without a lease they wait again."""
        for context in contexts:
            if self._may_start() or context.run_id in self._stopped_at:  # its executor ends it
                self._executor(context).start([context])
            else:
                self.slots.wait_again(context)

    def take_waiting(self, but: Container[str] = ()) -> list[Context]:
        """Takes back what has not begun; the caller gives it back to the database. Runs of the
        handlers `but` go on waiting.
        """
        heavy = tuple(self.slots.heavy)
        taken = [c for c in heavy if c.handler not in but and self.slots.remove(c)]
        for waiting in self._waiting.values():
            with contextlib.suppress(IndexError):  # executors have taken some meanwhile
                for _ in range(len(waiting)):
                    if waiting[0].handler in but:
                        waiting.rotate(-1)
                    else:
                        taken.append(waiting.popleft())
        self.start_waiting()  # a heavy run that was taken may have kept others from their slots
        return taken

    def forget(self, contexts: Iterable[Context]) -> None:
        """These claims are over for this node: ended and acknowledged, given back, or refused.

        A run may have been claimed anew before the end of its last attempt was acknowledged: the
        new claim stays.
        """
        for context in contexts:
            if self._held.get(run := context.run_id) is context:
                del self._held[run]
                self._stopped_at.pop(run, None)

    def stop(self, run: int, reason: StopReason) -> None:
        """Asks one run to stop; one that waits for its slot ends at once. Thread-safe."""
        context = self._held.get(run)
        if context is None or run in self._stopped_at or context.has_ended:
            return
        self._stopped_at[run] = monotonic()
        try:
            if not self.slots.remove(context):
                self._line(context).remove(context)
        except ValueError:  # it is with its executor; if that fails it is killed after its grace
            with contextlib.suppress(Exception):
                self._executor(context).stop(context, reason)
        else:
            self.done(context, Interrupted(reason, "asked to stop before it began"))

    def kill(self, run: int) -> None:
        """The grace period of a run that was asked to stop is over: kills it now. Thread-safe."""
        context = self._held.get(run)
        if context is not None and not context.has_ended and run in self._stopped_at:
            self._stopped_at[run] = float("-inf")
            self._kill(context)

    def _kill(self, context: Context) -> bool:
        with contextlib.suppress(Exception):  # where that fails it is immune
            return self._executor(context).kill(context)
        return False

    def stop_all(self, reason: StopReason, spares_finishing: bool = False) -> None:
        """Asks everything that was given to an executor to stop, begun or not: a blocked event
        loop may begin it much later. What waits for a slot goes on waiting, and what began and
        goes on without a lease is spared if `spares_finishing`. Thread-safe.
        """
        waiting = set(self.slots.heavy).union(*map(tuple, self._waiting.values()))
        for context in list(self._held.values()):
            goes_on = context.outlives_lease and context.started_monotonic is not None
            if context not in waiting and not (spares_finishing and goes_on):
                self.stop(context.run_id, reason)

    def kill_stopped(self, grace: float | None = None) -> list[Context]:
        """Kills what was asked to stop at least `grace` seconds ago or, without `grace`, as long
        ago as its handler's grace; returns what can't be killed. Thread-safe.
        """
        now = monotonic()
        immune: list[Context] = []
        for run, since in list(self._stopped_at.items()):
            context = self._held.get(run)
            if context is None or context.has_ended:
                continue
            own = self._policies.get(context.handler, DEFAULT_POLICY).grace
            if now - since < (own if grace is None else grace):
                continue
            if not self._kill(context):
                immune.append(context)
        return immune

    # What executors call, from any thread.

    def done(self, context: Context, outcome: Outcome) -> None:
        """The handler has really stopped."""
        context.has_ended = True
        self._ended.append((context, outcome, monotonic()))
        if self.slots.free_surplus(context) and not self.slots.heavy:
            self._start_soon()  # else the feed of the last one sees to it, which is asked next
        if not self._is_collecting:
            self._is_collecting = True
            # If the loop is closed the node is gone; its successor settles the run.
            post(self._loop, self._collect_ended)

    def executor_failed(self, error: BaseException) -> None:
        """A thread that serves an executor has ended: the node must."""
        self._failure = error

    def feed_for(self, kind: str) -> Callable[[], Context | None]:
        """The feed of one executor: the next run for the slot that became free, or None, which
        frees the slot or gives it to the run of another executor: all take turns.
        """

        def feed() -> Context | None:
            if self.slots.heavy:
                return self._feed_heavy(kind)
            if self._may_start():
                for line, owner in next(self._turns):
                    if self._waiting[line] and (context := self._take(line)):
                        return self._given(context, owner, kind)
            self.slots.free()
            if self.slots.heavy:  # one has begun to wait meanwhile
                self._start_soon()
            return None

        return feed

    def _collect_ended(self) -> None:
        batch = self._drain()
        if batch and self.waiting:
            # A burst: waking this loop for each end would cost more than the runs. It looks again
            # by itself, so a run that ends meanwhile need not wake it.
            self._loop.call_later(COLLECT_SECONDS, self._collect_ended)
        else:
            self._is_collecting = False
            batch += self._drain()  # what ended before the line above did not schedule this again
        if batch:
            self._collect(batch)

    def _line(self, context: Context) -> deque[Context]:
        handler = context.handler
        return self._waiting[handler if handler in self._batches else self._kind(handler)]

    def _take(self, line: str) -> Context | None:
        """The next that begins, with those that share its call; None: none waits. From any
        thread.
        """
        waiting = self._waiting[line]
        try:
            context = waiting.popleft()
        except IndexError:
            return None
        if line in self._batches:
            context._batch = batch = [context]
            with contextlib.suppress(IndexError):
                while len(batch) < self._batches[line]:
                    batch.append(waiting.popleft())
        return context

    def _drain(self) -> list[Ended]:
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]

    def _kind(self, handler: str) -> str:
        return self._kinds.get(handler) or handler.partition(":")[0]

    def _executor(self, context: Context) -> Executor:
        return self._executors[self._kind(context.handler)]


def _was_tried(context: Context) -> bool:
    return context.attempt > 1
