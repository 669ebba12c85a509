"""Executes ``py:`` handlers: async ones on an event loop of their own, plain ones in threads.
Isolated ones have processes of their own (`pgcron_ha.executors.python.child_pool`), in which this
executes them, too.

Neither shares a thread with the engine, so a handler that blocks can't delay a heartbeat. A run
costs a few microseconds here: contexts are handed over in batches, and each run that ends takes its
follower from the engine without a change of thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from queue import SimpleQueue
from time import monotonic
from typing import Any, ClassVar, NoReturn

from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.driver.transactions import Transactions
from pgcron_ha.executors.contract.base import Context, ExecutorServices, Outcome, StopReason
from pgcron_ha.executors.contract.coroutines import close_coroutine, go_on
from pgcron_ha.executors.contract.outcome import stopped_early
from pgcron_ha.executors.contract.tasks import LoopExecutor
from pgcron_ha.executors.contract.transaction import RunTransaction
from pgcron_ha.executors.python.batches import outcomes_of_error
from pgcron_ha.executors.python.capture import capture, current_run
from pgcron_ha.executors.python.handler import PythonHandler
from pgcron_ha.operating_system import IN_FORKED_CHILD

_TURN_SECONDS = 0.002
"""So long one slot's short runs may follow each other before the loop turns to the others."""

_END_SECONDS = 1.0
"""How long `close` waits for threads that have nothing left to do."""


class PythonExecutor(LoopExecutor):
    """An `Executor` for Python functions.

    ``done``, ``feed`` and the sink are called from the handlers' threads. An exception that
    ``done`` or ``feed`` raises is an error of the engine and ends only that chain of runs.
    """

    kind: ClassVar[str] = "py"
    _handlers: dict[str, PythonHandler]

    def __init__(
        self,
        registry: Mapping[str, PythonHandler],
        executor_services: ExecutorServices,
        link: Link | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        """Over ``link`` handlers ask for the run before theirs. ``transactions`` are those of runs
        with that delivery. There are at most as many threads as slots.
        """
        self._handlers = {handler.full_name: handler for handler in registry.values()}
        super().__init__("pgcron-handlers", executor_services)
        self._transactions = transactions
        self._live: dict[Context, None] = {}
        self.at_end: list[Callable[[], Coroutine[Any, Any, None]]] = []  # in the handlers' loop
        self._awake = False
        self._variables = contextvars.copy_context()
        self._threads = HandlerThreads(self._execute_plain, executor_services.slots)
        if link is not None:
            self._services.previous = link, self._loop
        self.at_end += [each.close for each in (link, transactions) if each is not None]
        capture.install()
        self._thread.start()
        IN_FORKED_CHILD[self] = self._become_a_copy

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand the async ones over to the loop, and each plain one to a thread."""
        for context in contexts:
            # Of a run that is refused the slot takes the next one.
            if (ready := _passed(context, self._is_ready) or self._next()) is not None:
                self._start(ready)

    def kill(self, context: Context) -> bool:
        """False: nothing ends a thread or a task that does not want to."""
        return False

    def _become_a_copy(self) -> None:
        """This is a process that a handler forked: it ends when it leaves its handler, or waits.
        Else it would report the end of the run again, and take the next one from its copy of the
        queue.
        """
        self._done = _end_copy
        for context in self._live:
            context._transaction = None  # its connection is the node's
        if threading.get_ident() == self._thread.ident:
            self._loop.call_soon(_end_copy)

    async def close(self, grace: float) -> None:
        """Stop all; after ``grace`` abandon what remains.

        A task that ignores its cancellation never runs again, since its loop ends; a plain function
        that does not return keeps its (daemon) thread, and its `done` is called if it ever ends.
        """
        if self._closing:
            return
        await self._stop_all(grace)
        for end in self.at_end:
            closing = asyncio.run_coroutine_threadsafe(end(), self._loop)
            await asyncio.wait({asyncio.wrap_future(closing)}, timeout=_END_SECONDS)
        await self._end_loop(_END_SECONDS)
        for thread in self._threads.close():
            thread.join(0 if self._live else _END_SECONDS)
        capture.uninstall()
        del IN_FORKED_CHILD[self]

    def _is_ready(self, context: Context) -> bool:
        """Whether it is to be executed; else it is refused, and done with."""
        context._services = self._services
        self._live[context] = None
        context._work = self._handlers.get(context.handler)
        # The lease is looked at when it begins.
        if (self._closing or context._work is None) and (refused := self._refusal(context)):
            self._report_end(context, refused)
            return False
        context._batch = context._batch or ([context] if context._work.policy.batch else None)
        if context.delivery == "transactional" and self._transactions:
            context._transaction = RunTransaction(context, self._transactions, self._loop)
        return True

    def _may_begin(self, context: Context) -> bool:
        """Whether it begins now; else it is refused, or was stopped meanwhile, and done with."""
        refused = self._refusal(context) or context._work.refusal(context)
        if refused is not None:
            self._report_end(context, refused)
            return False
        context.started_monotonic = monotonic()
        return True

    def _report_ends(self, context: Context, outcomes: Sequence[Outcome]) -> None:
        if context._batch is None:
            self._report_end(context, outcomes[0])
            return
        for each, outcome in zip(context._batch, outcomes, strict=True):
            self._report_end(each, outcome)
            each._batch = None

    def _next(self) -> Context | None:
        """What the slot that became free does now."""
        while not self._closing and (context := self._feed()) is not None:
            if (ready := _passed(context, self._is_ready)) is not None:
                return ready
        return None

    # The loop's side.

    def _take_inbox(self) -> None:
        self._awake = False  # before the inbox is read, so that no hand-over can be missed
        while self._inbox:
            self._start_task(self._inbox.popleft())

    def _start_task(self, context: Context) -> None:
        # The loop keeps it until it begins, its context while it waits. The constant name saves
        # asyncio the making of a new one.
        asyncio.Task(
            self._execute_chain(context),
            loop=self._loop,
            name="pgcron-run",
            context=self._variables.copy(),
        )

    async def _execute_chain(self, context: Context) -> None:
        """The runs of one slot, one after the other, as long as none of them waits for anything.

        A task costs more than a short run. The first run that waits keeps the task for itself, so
        whatever a handler ties to its task ends with the run. Each run has a fresh copy of the
        variables: nothing a run sets is seen by the next one.
        """
        task = asyncio.current_task()
        assert task is not None  # we are its coroutine
        turn_ends_at = monotonic() + _TURN_SECONDS
        while True:
            has_waited = await self._execute(context, task)
            following = self._next()
            if following is None:
                return
            if not following._work.is_async:
                self._start(following)
                return
            if has_waited or task.cancelling() or monotonic() > turn_ends_at:
                self._start_task(following)
                return
            context = following

    async def _execute(self, context: Context, task: asyncio.Task[None]) -> bool:
        """Whether the handler has waited."""
        waiting = None
        if (begun := _passed(context, self._may_begin)) is None:
            return False
        variables = self._variables.copy()
        try:
            waiting, result = variables.run(_begin, begun)
            if waiting is not None:
                for each in begun._batch or (begun,):
                    each._work = task
                result = await go_on(waiting, result, variables)
            outcomes = self._handlers[begun.handler].outcomes_of(begun, result)
        except BaseException as error:
            outcomes = outcomes_of_error(begun, error)
        if begun._transaction is not None:
            begun._work = None  # a stop must not cancel a COMMIT
            outcomes = [await begun._transaction.settle(outcomes[0])]
        self._report_ends(begun, outcomes)
        return waiting is not None

    def _cancel(self, context: Context) -> None:
        # A task that has not begun sees the reason itself; cancelled now it would never begin.
        task = context._work
        if context.started_monotonic is not None and isinstance(task, asyncio.Task):
            for each in context._batch or (context,):
                each._work = None  # another stop must not break off what this one lets it do
            task.cancel()

    def _leave_loop(self) -> None:
        """End what ignored its cancellation: no code of it runs after this."""
        self._take_inbox()
        for task in asyncio.all_tasks(self._loop):
            close_coroutine(task)  # once: the loop ends, so what swallows it does not go on
        for context in list(self._live):
            if self._handlers[context.handler].is_async:  # it had not begun
                self._report_end(context, stopped_early(StopReason.SHUTDOWN))

    # The threads' side.

    def _execute_plain(self, context: Context) -> Context | None:
        if (begun := _passed(context, self._may_begin)) is not None:
            outcomes = self._variables.copy().run(_call_plain, begun)
            if begun._transaction is not None:
                outcomes = [begun._transaction.settle_in_thread(outcomes[0])]
            self._report_ends(begun, outcomes)
        following = self._next()
        if following is None or not following._work.is_async:
            return following
        self._start(following)
        return None

    def _start(self, context: Context) -> None:
        if context._work.is_async:
            self._inbox.append(context)
            if not self._awake:
                self._awake = True
                self._loop.call_soon_threadsafe(self._take_inbox)
        else:
            self._threads.submit(context)


class HandlerThreads:
    """Threads for plain functions, made on demand, at most ``limit``.

    Each calls ``execute(context)``; the context it returns is executed next by the same.

    The threads are daemons: one stuck in a user's function must not keep the process alive.
    """

    def __init__(self, execute: Callable[[Context], Context | None], limit: int) -> None:
        self._execute = execute
        self._limit = limit
        self._waiting: SimpleQueue[Context | None] = SimpleQueue()
        self._making = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, context: Context) -> None:
        """Execute it in an idle or a new thread, or when one of the ``limit`` threads is free."""
        self._waiting.put(context)
        with self._making:
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
                name = f"pgcron-handler-{len(self._threads) + 1}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()

    def close(self) -> list[threading.Thread]:
        """Let idle threads end; gives all, to be joined."""
        for _ in self._threads:
            self._waiting.put(None)
        return self._threads

    def _work(self) -> None:
        while (following := self._waiting.get()) is not None:
            while following is not None:
                following = self._execute(following)
            self._idle.release()


def _end_copy(*_: object) -> NoReturn:
    """Nothing that was registered for the end of the node is called."""
    with contextlib.suppress(OSError):
        os.write(2, b"a process that a handler forked came back instead of ending; it ends\n")
    os._exit(70)


def _passed(context: Context, test: Callable[[Context], bool]) -> Context | None:
    """The first of its runs that pass, which stands for all; each of them knows its batch."""
    if context._batch is None:
        return context if test(context) else None
    runs = list(filter(test, context._batch))
    for each in runs:
        each._batch = runs
    return runs[0] if runs else None


def _begin(context: Context) -> tuple[Coroutine[Any, Any, Any] | None, Any]:
    """(None, result) of an async handler that did not wait; else its coroutine, and what it waits
    for.
    """
    current_run.set(context)  # what a batch prints is kept with its first run
    coroutine = context._work.call(context)
    try:
        return coroutine, coroutine.send(None)
    except StopIteration as end:
        return None, end.value


def _call_plain(context: Context) -> list[Outcome]:
    current_run.set(context)
    handler: PythonHandler = context._work
    try:
        return handler.outcomes_of(context, handler.call(context))
    except BaseException as error:
        return outcomes_of_error(context, error)
