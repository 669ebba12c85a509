"""Coroutines begun outside a task of their own, and waiting for one in another thread."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextvars import Context as Variables
from typing import Any

from pgcron_ha.errors import InvalidInput


@types.coroutine
def go_on(
    coroutine: Coroutine[Any, Any, Any], waited_for: Any, variables: Variables
) -> Generator[Any, Any, Any]:
    """Awaits the rest of a coroutine whose first step gave ``waited_for``; each step sees
    ``variables``. What is thrown into the awaiting task reaches the coroutine.
    """
    while True:
        go: Callable[[Any], Any] = coroutine.send
        try:
            given = yield waited_for
        except GeneratorExit:
            variables.run(coroutine.close)
            raise
        except BaseException as thrown:
            go, given = coroutine.throw, thrown
        try:
            waited_for = variables.run(go, given)
        except StopIteration as end:
            return end.value


def post(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *arguments: Any) -> bool:
    """Have it called on the loop; from any thread. False when the loop is closed: nothing runs
    there any more.
    """
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)
        return True
    return False


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Until the event is set, or the time is over; whether it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def wait_uncancelled(future: asyncio.Future[Any]) -> None:
    """Wait until it is done, even if the waiting task is cancelled meanwhile."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({future})


def close_coroutine(task: asyncio.Task[Any], tries: int = 1) -> None:
    """No code of the task runs any more, unless its coroutine swallows so many ends of itself. When
    the task is woken next it finds its coroutine closed.
    """
    coroutine: Any = task.get_coro()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that is no failure to report
    for _ in range(tries):
        with contextlib.suppress(BaseException):  # it goes on all the same
            coroutine.close()
            break


def submit(loop: asyncio.AbstractEventLoop, sending: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Begin something on the loop, from another thread. Raises InvalidInput on the loop itself."""
    with contextlib.suppress(RuntimeError):  # no loop is running in this thread
        if asyncio.get_running_loop() is loop:
            raise InvalidInput(
                "a plain `with` on the event loop of async handlers",
                "It would wait for itself.",
                "In an async handler write `async with context.connection() as connection`.",
            )
    return asyncio.run_coroutine_threadsafe(sending, loop)
