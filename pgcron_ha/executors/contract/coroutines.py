"""The event loop of an executor's thread, and coroutines begun outside a task of its own."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context as Variables
from typing import Any


@types.coroutine
def go_on(
    coroutine: Coroutine[Any, Any, Any], waited_for: Any, variables: Variables
) -> Generator[Any, Any, Any]:
    """Awaits the rest of a coroutine whose first step gave ``waited_for``; each step sees
    ``variables``. What is thrown into the awaiting task reaches the coroutine.
    """
    while True:
        error: BaseException | None = None
        answer = None
        try:
            answer = yield waited_for
        except GeneratorExit:
            variables.run(coroutine.close)
            raise
        except BaseException as thrown:
            error = thrown
        try:
            if error is None:
                waited_for = variables.run(coroutine.send, answer)
            else:
                waited_for = variables.run(coroutine.throw, error)
        except StopIteration as end:
            return end.value


async def as_coroutine(awaitable: Awaitable[Any]) -> Any:
    """A coroutine that awaits something else that can be awaited."""
    return await awaitable


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest there is on this platform."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
