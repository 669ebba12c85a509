"""Waiting for runs: one question at a time for everything that an event loop waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from pgcron_ha.client.run_status import RunStatus
from pgcron_ha.errors import (
    DatabaseUnavailable,
    PgcronError,
    RunCancelled,
    RunFailed,
    RunNotStarted,
    RunNotSucceeded,
    WaitTimedOut,
)
from pgcron_ha.model.run import RunOutcome

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two looks: one descent of an index for each run that is waited for."""

MOST_AT_ONCE: Final = 10_000

_NOT_STARTED: Final = (RunOutcome.SKIPPED, RunOutcome.SUPERSEDED, RunOutcome.EXPIRED)


class Waiting:
    """Those who wait in one event loop. `look` says which of some runs are over."""

    def __init__(self, look: Callable[[list[int]], Awaitable[list[int]]]) -> None:
        self._look = look
        self._waiters: dict[int, set[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._pause = FIRST_PAUSE_SECONDS

    async def until_ended(self, run_id: int, timeout: float | None = None) -> None:
        """Returns when the run is over. Raises WaitTimedOut, and what a look raises; while the
        database is away it waits on.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(run_id, set()).add(waiter)
        self._pause = FIRST_PAUSE_SECONDS  # a new run may be a short one
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_looking())
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            raise timed_out(run_id, timeout) from None
        finally:
            self._leave(run_id, waiter)

    def close(self) -> None:
        """Whoever still waits is told so by an error."""
        if self._task is not None:
            self._task.cancel()
        self._tell_all(PgcronError("the App was closed while a run was waited for"))

    def _leave(self, run_id: int, waiter: asyncio.Future[None]) -> None:
        others = self._waiters.get(run_id, set())
        others.discard(waiter)
        if not others:
            self._waiters.pop(run_id, None)

    async def _keep_looking(self) -> None:
        while self._waiters:
            try:
                await self._look_once()
            except DatabaseUnavailable:
                self._pause = LONGEST_PAUSE_SECONDS
            except Exception as error:
                self._tell_all(error)
            await asyncio.sleep(self._pause)
            self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 1.5)
        self._task = None

    async def _look_once(self) -> None:
        asked = list(islice(self._waiters, MOST_AT_ONCE))
        for run_id in await self._look(asked):
            for waiter in self._waiters.get(run_id, ()):
                if not waiter.done():
                    waiter.set_result(None)
        if len(asked) == MOST_AT_ONCE:  # whoever was asked for is the last in the next look
            for run_id in asked:
                if run_id in self._waiters:
                    self._waiters[run_id] = self._waiters.pop(run_id)

    def _tell_all(self, error: Exception) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)


def require_success(status: RunStatus) -> RunStatus:
    """The same, if it succeeded. Raises RunFailed, RunCancelled or RunNotStarted."""
    outcome = status.outcome
    if outcome == RunOutcome.SUCCEEDED:
        return status
    kind: type[RunNotSucceeded] = RunFailed
    if outcome == RunOutcome.CANCELLED:
        kind = RunCancelled
    elif outcome in _NOT_STARTED:
        kind = RunNotStarted
    raise kind(status.id, str(outcome), status.error)


def timed_out(run_id: int, timeout: float | None) -> WaitTimedOut:
    """The error of who waited `timeout` seconds for a run that goes on."""
    return WaitTimedOut(
        f"run {run_id} is not over after {timeout or 0:g} s",
        "Only the waiting ended: the run goes on.",
        "Wait longer or again; `pgcron-ha runs show` tells how it stands.",
    )
