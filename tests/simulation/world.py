"""Virtual time: one heap of timers for all event loops, jumped from one to the next.

A process has loops (the engine's, the session's, the handlers'), clocks of its own, and can be
frozen or killed. Within one loop callbacks run in their order, as asyncio promises; among loops the
seed chooses. Nothing here waits for real time.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, cast

_LATE_SECONDS: Final = 0.0004
"""How late a timer may fire."""

_BUSIEST_SECOND: Final = 50_000
"""Callbacks of one virtual second beyond which something turns in a circle."""

_AGAIN_SECONDS: Final = 0.02
_LIMBO_ROUNDS: Final = 50


class NotYet(Exception):
    """What a thread would block on is not there: `run_in_executor` asks again."""


class ProcessExit(BaseException):
    """The process has ended itself."""


class World:
    """The clock, the chance and the order of everything."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self.current: VirtualLoop | None = None
        self._entered: VirtualLoop | None = None
        self.failure: BaseException | None = None
        self.steps = 0
        self._trace = hashlib.blake2b(digest_size=16)
        self._timers: list[tuple[float, int, VirtualLoop | None, Handle]] = []
        self._made = 0
        self._busy: list[VirtualLoop] = []

    def call_at(self, when: float, callback: Callable[..., object], *arguments: Any) -> None:
        """An event that belongs to no process."""
        self.push(when, None, Handle(callback, arguments, None))

    def push(self, when: float, loop: VirtualLoop | None, handle: Handle) -> None:
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, loop, handle))

    def is_busy(self, loop: VirtualLoop) -> None:
        """This loop has something to do now."""
        self._busy.append(loop)

    def report(self, *facts: object) -> None:
        """A line of the trace: two runs of one seed have the same."""
        self._trace.update(f"{self.now:.6f} {facts}\n".encode())

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def fail(self, failure: BaseException) -> None:
        """The first failure ends the simulation."""
        if self.failure is None:
            self.failure = failure

    def run_until(self, end: float) -> None:
        """Everything that happens up to this instant; raises the failure if there was one."""
        busy, timers, chance = self._busy, self._timers, self.chance
        since = self.steps
        while self.failure is None:
            if busy:
                if self.steps - since > _BUSIEST_SECOND:
                    self.fail(AssertionError("callbacks call each other without end"))
                position = int(chance.random() * len(busy)) if len(busy) > 1 else 0
                loop = busy[position]
                if loop.is_frozen or not loop.run_one():
                    busy[position] = busy[-1]
                    busy.pop()
                    loop.is_queued = False
                continue
            if not timers or timers[0][0] > end:
                self.now = end
                break
            when, _, owner, handle = heapq.heappop(timers)
            if int(when) > int(self.now):
                since = self.steps
            self.now = max(self.now, when)
            if handle.is_cancelled:
                continue
            if owner is None:
                self.steps += 1
                self._run(None, handle)
            else:
                owner.take_timer(handle)
        self.leave()
        if self.failure is not None:
            raise self.failure

    def leave(self) -> None:
        """No loop runs any more."""
        self._entered = None
        asyncio._set_running_loop(None)

    def _run(self, loop: VirtualLoop | None, handle: Handle) -> None:
        self.current = loop
        if loop is not self._entered:
            self._entered = loop
            asyncio._set_running_loop(cast(Any, loop))
        try:
            if handle.context is None:
                handle.callback(*handle.arguments)
            else:
                handle.context.run(handle.callback, *handle.arguments)
        except ProcessExit:
            assert loop is not None
            loop.process.end()
        except BaseException as error:
            self.fail(error)
        finally:
            self.current = None


class Handle:
    """A callback that can be cancelled, as asyncio's."""

    __slots__ = ("arguments", "callback", "context", "is_cancelled", "when_by_loop")

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context | None,
        when_by_loop: float = 0.0,
    ) -> None:
        self.callback = callback
        self.arguments = arguments
        self.context = context
        self.is_cancelled = False
        self.when_by_loop = when_by_loop

    def cancel(self) -> None:
        self.is_cancelled = True
        self.arguments = ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_by_loop


class Process:
    """Clocks and loops that live, freeze and die together."""

    def __init__(self, world: World, name: str, rate: float, offset: float) -> None:
        """`rate`: seconds of its clocks in a true second; `offset`: what they show at first."""
        self.world = world
        self.name = name
        self.is_alive = True
        self.is_limbo = False
        self.frozen = 0
        self.resumed_at = 0.0
        self._rate, self._offset = rate, offset
        self._suspended = 0.0
        self.engine = VirtualLoop(self)
        self.session = VirtualLoop(self)
        self.handlers = VirtualLoop(self)
        self.loops = (self.engine, self.session, self.handlers)
        self.on_end: list[Callable[[], None]] = []

    def boottime(self) -> float:
        return self._offset + self.world.now * self._rate

    def monotonic(self) -> float:
        return self._offset + self.world.now * self._rate - self._suspended

    def true_time(self, boottime: float) -> float:
        """When its clock will show, or has shown, this."""
        return (boottime - self._offset) / self._rate

    def true_delay(self, seconds: float) -> float:
        return seconds / self._rate

    def freeze(self, seconds: float, *, is_suspend: bool) -> None:
        """Nothing of it runs for a while; a suspended machine's monotonic clock stands still."""
        self.frozen += 1
        self.world.report("freeze", self.name, is_suspend)

        self.world.call_at(self.world.now + seconds, self._thaw_after, self.world.now, is_suspend)

    def thaw(self) -> None:
        """It goes on now, however often it was frozen."""
        if self.frozen:
            self.frozen = 0
            self._go_on()
        for loop in self.loops:
            loop.stalled = 0
            loop.wake()

    def _thaw_after(self, since: float, is_suspend: bool) -> None:
        if not self.frozen:
            return
        self.frozen -= 1
        if is_suspend:
            self._suspended += (self.world.now - since) * self._rate
        if not self.frozen:
            self._go_on()

    def _go_on(self) -> None:
        if self.is_alive:
            self.resumed_at = self.world.now
            for loop in self.loops:
                loop.wake()

    def end(self) -> None:
        """As ``kill -9`` does: not one callback more. What only tidies memory runs in limbo."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.world.report("end", self.name)
        for callback in self.on_end:
            callback()

    def bury(self) -> None:
        """Ends the coroutines of a dead process, where nothing they do reaches anybody."""
        self.is_limbo = True
        for _ in range(_LIMBO_ROUNDS):
            tasks = [task for loop in self.loops for task in loop.tasks if not task.done()]
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            for loop in self.loops:
                loop.run_all()
        for loop in self.loops:
            loop.tasks.clear()
            loop.ready.clear()
        self.world.leave()


class VirtualLoop:
    """An event loop without I/O, threads and real time: what asyncio asks of one, and no more."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world
        self.ready: deque[Handle] = deque()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_queued = False
        self.stalled = 0

    # What the world asks.

    @property
    def is_frozen(self) -> bool:
        return self.process.frozen > 0 or self.stalled > 0 or not self.process.is_alive

    def wake(self) -> None:
        if self.ready and not self.is_queued:
            self.is_queued = True
            self.world.is_busy(self)

    def run_one(self) -> bool:
        """Runs the next callback; False when there is none."""
        ready = self.ready
        while ready:
            handle = ready.popleft()
            if not handle.is_cancelled:
                self.world.steps += 1
                self.world._run(self, handle)
                return True
        return False

    def run_all(self) -> None:
        """For limbo: everything that is ready, but nothing that would be later."""
        while self.ready:
            handle = self.ready.popleft()
            if not handle.is_cancelled:
                self.world._run(self, handle)

    def take_timer(self, handle: Handle) -> None:
        if not self.process.is_alive:
            return
        early = handle.when_by_loop - self.time()
        if early > 1e-6:  # the machine was suspended: this clock stood still
            self.world.push(self.world.now + self.process.true_delay(early), self, handle)
            return
        self.ready.append(handle)
        self.wake()

    def stall(self, seconds: float) -> None:
        """Only this loop stands still, as behind a callback that blocks it."""
        self.stalled += 1

        def go_on() -> None:
            self.stalled = max(0, self.stalled - 1)
            self.wake()

        self.world.call_at(self.world.now + seconds, go_on)

    # What asyncio asks.

    def time(self) -> float:
        return self.process.monotonic()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.process.is_alive

    def is_closed(self) -> bool:
        return self.process.is_limbo

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(Any, self))

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=cast(Any, self), **options)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context or copy_context())
        self.ready.append(handle)
        if not self.is_queued:
            self.is_queued = True
            self.world.is_busy(self)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        handle = Handle(callback, args, context or copy_context(), when)
        late = self.world.chance.random() * _LATE_SECONDS
        delay = self.process.true_delay(max(0.0, when - self.time()))
        self.world.push(self.world.now + delay + late, self, handle)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """A thread's work, done at once, or looked at again until it can be."""
        future = self.create_future()

        def attempt() -> None:
            if future.done():
                return
            try:
                result = func(*args)
            except NotYet:
                self.call_later(_AGAIN_SECONDS, attempt)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(attempt)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.process.is_alive:
            error = context.get("exception")
            self.world.fail(error or AssertionError(f"{self.process.name}: {context['message']}"))

    def post(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> None:
        """What comes from outside after so many true seconds."""
        self.world.push(self.world.now + seconds, self, Handle(callback, arguments, None))

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Begins a coroutine here, from outside."""
        self.call_soon(self.create_task, coroutine)
