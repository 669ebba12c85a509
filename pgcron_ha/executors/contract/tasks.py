"""`TaskExecutor`: one asyncio task for each run, on an event loop in a thread of its own.

What all executors need is done here once: exactly one `done` for each run, no run after the end of
the lease or `close`, a stop at any moment, a kill by force. A subclass says what a run does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from time import monotonic
from types import MappingProxyType
from typing import Any, ClassVar

import uvloop

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract import failures
from pgcron_ha.executors.contract.attempt import RunServices, StopReason
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.coroutines import close_coroutine, post, wait_uncancelled
from pgcron_ha.executors.contract.masking import Masker
from pgcron_ha.executors.contract.outcome import (
    Committed,
    Failed,
    Interrupted,
    Outcome,
    Succeeded,
    stopped_early,
)
from pgcron_ha.executors.contract.secret_values import is_encrypted
from pgcron_ha.operating_system import boottime

KILL_SECONDS = 1.0
"""What a task that is killed gets to close its connections, before no code of it runs any more."""

_LOOK_SECONDS = 0.5
"""Between two looks at the lease: it may have been renewed, and its clock goes on while the machine
is suspended, which timers do not.
"""

_MAX_CLOSES = 100  # for a coroutine that swallows even the end of itself
_SHUT_SECONDS = 2.0
_END_SECONDS = 5.0


class LoopExecutor(ABC):
    """What executors with an event loop in a thread of its own have in common. The thread is
    started by the subclass.
    """

    _handlers: Collection[str]
    """The full names of what it executes."""
    _live: dict[Context, Any]

    def __init__(self, thread_name: str, executor_services: ExecutorServices) -> None:
        self._done = executor_services.done
        self._feed = executor_services.feed
        self._services = RunServices(executor_services.sink, executor_services.flush)
        self._inbox: deque[Context] = deque()
        self._closing = False
        self._nothing_left: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=thread_name, daemon=True)

    @abstractmethod
    def _cancel(self, context: Context) -> None:
        """On the loop: ask a run to stop, if it has begun."""

    @abstractmethod
    def _leave_loop(self) -> None:
        """In the thread, when the loop has stopped: end what is still on it."""

    def stop(self, context: Context, reason: StopReason) -> None:
        """Ask it to stop, if nothing has before; what has not begun learns it from its context."""
        if context.stop_reason is None:
            context.stop_reason = reason
            if context._transaction is not None:
                context._transaction.interrupt()
            self._post(self._cancel, context)

    def renew_lease(self, deadline: float) -> None:
        """From this instant on `Context.check` raises."""
        self._services.deadline = deadline

    async def _stop_all(self, grace: float) -> None:
        """Ask all to stop, and wait for their end."""
        self._closing = True
        for context in list(self._live):
            self.stop(context, StopReason.SHUTDOWN)
        self._post(self._note_nothing_left)
        await asyncio.wait({asyncio.wrap_future(self._nothing_left)}, timeout=grace)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
                break
            except BaseException:  # SystemExit of a task that a handler left behind
                continue
        self._leave_loop()
        self._loop.close()
        self._ended.set_result(None)

    def _post(self, callback: Any, *arguments: Any) -> bool:
        return post(self._loop, callback, *arguments)

    def handlers(self) -> frozenset[str]:
        """The full names of what it executes."""
        return frozenset(self._handlers)

    def _refusal(self, context: Context) -> Outcome | None:
        """Why a run is not begun; None in the usual case."""
        if self._closing:
            context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
        elif context.stop_reason is None and boottime() >= self._services.deadline:
            context.stop_reason = StopReason.LEASE_LOST
        if context.stop_reason is not None:
            return stopped_early(context.stop_reason)
        if context.handler not in self._handlers:
            return Failed("NotFound", f"this node does not offer the handler {context.handler!r}")
        return None

    def _report_end(self, context: Context, outcome: Outcome) -> None:
        if context._log is not None:
            context._log.finish()
        # What it left behind prints where the process does.
        context._work = context._transaction = context._services = None
        self._live.pop(context, None)
        self._done(context, outcome)
        self._note_nothing_left()

    def _note_nothing_left(self) -> None:
        if self._closing and not self._live:
            with contextlib.suppress(InvalidStateError):  # another thread was quicker
                self._nothing_left.set_result(None)

    async def _end_loop(self, seconds: float) -> None:
        self._post(self._loop.stop)
        await asyncio.wait({asyncio.wrap_future(self._ended)}, timeout=seconds)
        if self._ended.done():  # else code of a run blocks the loop; the thread ends after it
            self._thread.join()


class TaskExecutor(LoopExecutor):
    """An `Executor` whose runs are coroutines. Subclasses implement `execute`, may `shut` what the
    runs share, and say with `interrupt` and `end` how work outside of the process is stopped.
    ``handlers`` are full names, all of this ``kind``.
    """

    end_seconds: ClassVar[float | None] = 1.0
    """Time limit of `end`; a run whose `end` takes longer is over all the same. None: no limit."""

    time_limits: Mapping[str, float | None] = MappingProxyType({})
    """Seconds after which a run of a handler is asked to stop. The limits that a run has of its own
    are kept by the node.
    """

    def __init__(
        self, kind: str, handlers: Iterable[str], executor_services: ExecutorServices
    ) -> None:
        super().__init__(f"pgcron-{kind}", executor_services)
        self.kind = kind
        self._handlers = frozenset(handlers)
        self._failed = executor_services.failed
        self._live: dict[Context, asyncio.Task[None]] = {}
        self._endings: dict[Context, asyncio.Task[None]] = {}
        self._look: asyncio.TimerHandle | None = None
        self._thread.start()

    # What a subclass implements.

    @abstractmethod
    async def execute(self, context: Context) -> Outcome:
        """Execute one run, on the executor's loop; an exception is an outcome, too: InvalidInput
        refuses the run's args for good. The text of a `Succeeded` is made of its result here. What
        executes it may be kept as its ``_work``.

        It is cancelled to stop it, unless `interrupt` does something else, and must not swallow
        that: the work has ended when it ends.
        """

    def interrupt(self, context: Context) -> None:
        """Ask a run that has begun to stop; called on the loop."""
        self.cancel(context)

    async def end(self, context: Context) -> None:
        """End a run that has begun without asking; called on the loop, once. `done` waits for it:
        when it returns, nothing of the run goes on outside of this process. The coroutine that
        still goes on `KILL_SECONDS` later is closed.
        """
        self.cancel(context)

    def cancel(self, context: Context) -> None:
        """Cancel its `execute`."""
        self._live[context].cancel()

    async def shut(self) -> None:
        """Close what the runs have shared; called on the loop after the last of them."""

    # The contract.

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand all over to the loop."""
        self._inbox.extend(contexts)
        if not self._post(self._take_inbox):
            self._take_inbox()  # the loop is closed: all are refused

    def kill(self, context: Context) -> bool:
        """Cancel its task, and end it by force if it goes on."""
        if context.stop_reason is None:
            context.stop_reason = StopReason.CANCELLED
        self._post(self._kill, context)
        return True

    async def close(self, grace: float) -> None:
        """Cancel all, kill after ``grace`` seconds what goes on, end the thread."""
        if self._closing:
            return
        await self._stop_all(grace)
        for context in list(self._live):
            self.kill(context)
        seconds = (self.end_seconds or _END_SECONDS) + 2 * KILL_SECONDS
        await asyncio.wait({asyncio.wrap_future(self._nothing_left)}, timeout=seconds)
        await self._end_loop(_END_SECONDS)
        self._take_inbox()

    # The loop's side.

    def _leave_loop(self) -> None:
        shut = asyncio.wait_for(self.shut(), _SHUT_SECONDS)
        for ending in (shut, self._loop.shutdown_asyncgens()):
            with contextlib.suppress(BaseException):
                self._loop.run_until_complete(ending)

    def _take_inbox(self) -> None:
        while True:
            try:
                context = self._inbox.popleft()
            except IndexError:  # not asked before: another thread may take the last one
                return
            self._begin(context)

    def _begin(self, context: Context | None) -> None:
        """Begin it; when it is refused, the slot takes the next one."""
        while context is not None and (refused := self._refusal(context)) is not None:
            self._done(context, refused)
            context = None if self._closing else self._feed()
        if context is None:
            return
        context._services = self._services
        self._live[context] = self._loop.create_task(self._execute(context))
        if self._look is None:
            self._look_at_lease()

    async def _execute(self, context: Context) -> None:
        outcome: Outcome | None = self._refusal(context)  # it may have been stopped meanwhile
        if outcome is None:
            context._work = self
            context.started_monotonic = monotonic()
            limit, timed_out = self.time_limits.get(context.handler), StopReason.TIMED_OUT
            timer = limit and self._loop.call_later(limit, self.stop, context, timed_out)
            try:
                outcome = _bounded(await self.execute(context), context._masker)
            except InvalidInput as error:
                outcome = failures.refused(error, context._masker)
            except BaseException as error:
                outcome = failures.outcome_of_error(error, context)
            if timer:
                timer.cancel()
            if (ending := self._endings.get(context)) is not None:
                await wait_uncancelled(ending)  # it is over when it has been killed
        self._endings.pop(context, None)
        try:
            self._report_end(context, outcome)
            if not self._closing:
                self._begin(self._feed())
        except Exception as error:  # the engine's own: the slot is lost
            self._failed(error)

    def _cancel(self, context: Context) -> None:
        # A task that has not begun sees the reason itself; cancelled now it would never begin.
        if context in self._live and context._work is not None:
            self.interrupt(context)

    def _kill(self, context: Context) -> None:
        task = self._live.get(context)
        if task is not None and context not in self._endings:
            self._endings[context] = self._loop.create_task(self._end(context, task))

    async def _end(self, context: Context, task: asyncio.Task[None]) -> None:
        if self._live.get(context) is task and context._work is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.end(context), self.end_seconds)
        self._loop.call_later(KILL_SECONDS, self._end_by_force, context, task)

    def _end_by_force(self, context: Context, task: asyncio.Task[None]) -> None:
        if self._live.get(context) is not task:
            return
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        close_coroutine(task, _MAX_CLOSES)  # `_execute` sees GeneratorExit, and finishes the run

    def _look_at_lease(self) -> None:
        """When it is over, kill the tasks that must not outlive it."""
        self._look = None
        left = self._services.deadline - boottime()
        if left <= 0:
            for context in list(self._live):
                if not context.outlives_lease:
                    context.stop_reason = context.stop_reason or StopReason.LEASE_LOST
                    self._kill(context)
        elif self._live:
            self._look = self._loop.call_later(min(left, _LOOK_SECONDS), self._look_at_lease)


def _bounded(outcome: Outcome, own: Masker | None) -> Outcome:
    """What the database can keep, whatever a subclass returns. Raises TypeError for no outcome."""
    if isinstance(outcome, Committed):
        return outcome  # the database has taken it
    if isinstance(outcome, Succeeded):
        # Its text is made once more: it must be that of its result, and fit.
        if outcome.text is not None and is_encrypted(outcome.result):
            return outcome
        return failures.outcome_of_result(outcome.result, own)
    if isinstance(outcome, Failed):
        limit, most = failures.MAX_TRACEBACK_CHARACTERS, failures.MAX_NAME_CHARACTERS
        return replace(
            outcome,
            error_class=failures.bounded_text(outcome.error_class, most, own),
            message=failures.bounded_text(outcome.message, own=own),
            traceback=outcome.traceback and failures.bounded_text(outcome.traceback, limit, own),
            fingerprint=outcome.fingerprint and outcome.fingerprint[:most],
        )
    if isinstance(outcome, Interrupted):
        return replace(outcome, message=failures.bounded_text(outcome.message, own=own))
    raise TypeError(f"the executor returned {type(outcome).__name__!r}, which is no outcome")
