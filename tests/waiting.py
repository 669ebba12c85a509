"""Waiting for a condition, never for a time. The only place of the tests that sleeps."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import pytest

T = TypeVar("T")

# Many times what a quiet machine needs: on a busy one a wait is no measurement.
DEADLINE_SECONDS = 120.0
# For a command that a test runs to its end: what takes so long beside other programs hangs.
COMMAND_SECONDS = 300.0
PAUSE_SECONDS = 0.02


@overload
async def until(
    what: str,
    condition: Callable[[], Awaitable[T]],
    *,
    deadline: float = ...,
    pause: float = ...,
    ignoring: tuple[type[Exception], ...] = ...,
) -> T: ...
@overload
async def until(
    what: str,
    condition: Callable[[], T],
    *,
    deadline: float = ...,
    pause: float = ...,
    ignoring: tuple[type[Exception], ...] = ...,
) -> T: ...
async def until(
    what: str,
    condition: Callable[[], Any],
    *,
    deadline: float = DEADLINE_SECONDS,
    pause: float = PAUSE_SECONDS,
    ignoring: tuple[type[Exception], ...] = (),
) -> Any:
    """Ask until the condition, a function or a coroutine function, answers something true.

    Returns the answer. Fails the test with `what` and the last answer after `deadline` seconds.
    Errors of the kinds in `ignoring` count as "not yet".
    """
    last: object = None
    for _ in _attempts(deadline):
        try:
            asked = condition()
            answer = await asked if inspect.isawaitable(asked) else asked
        except ignoring as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        await asyncio.sleep(pause)
    pytest.fail(f"not within {deadline:g} s: {what}; the last answer: {last!r}")


def wait_for(what: str, condition: Callable[[], T], *, deadline: float = DEADLINE_SECONDS) -> T:
    """As `until`, for fixtures and other places without an event loop."""
    answer: T | None = None
    for _ in _attempts(deadline):
        answer = condition()
        if answer:
            return answer
        time.sleep(PAUSE_SECONDS)
    pytest.fail(f"not within {deadline:g} s: {what}; the last answer: {answer!r}")


def slowness() -> float:
    """How many times longer work takes than on a quiet machine: how many want each processor, of
    late or now. A bound for what the product does in that time is so many times longer.
    """
    now = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, max(os.getloadavg()[0], now) / len(os.sched_getaffinity(0)))


def _attempts(deadline: float) -> Iterator[None]:
    """Once at least, and once after the deadline: a paused machine must not fail a test."""
    end = time.monotonic() + deadline
    yield
    while time.monotonic() < end:
        yield
    yield
