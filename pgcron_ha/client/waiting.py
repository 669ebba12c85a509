"""Waiting for runs: one query at a time for everything that an event loop waits for.

Notifications report ends (`Notifications`); polling finds those that were missed, and all of them
where no notifications arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from pgcron_ha.client.run_status import await_runs, ended_runs, probe_ends, timed_out
from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.coroutines import wait_at_most
from pgcron_ha.telemetry.events import EndsAreNotNotified
from pgcron_ha.telemetry.log import emit

FIRST_PAUSE_SECONDS: Final = 0.004
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two polls: one descent of an index for each run that is waited for."""

NET_SECONDS: Final = 5.0
"""Between two polls for runs whose end a notification should have reported."""

LINGER_SECONDS: Final = 30.0
"""How long the connection is kept when nobody waits, so that the next waiter need not connect."""

_CANCEL_AGAIN_SECONDS: Final = 0.1
_SECONDS_FOR_EACH: Final = 1e-5

PROBE_SECONDS: Final = 2.0
"""A notification that has not arrived by then won't: a pooler does not pass it."""

RECONNECT_SECONDS: Final = 1.0
UNRESPONSIVE_SECONDS: Final = 60.0
"""Until the next attempt after a probe that did not arrive."""

_PROBE: Final = "probe"


@dataclass(eq=False)
class Notifications:
    """A connection that listens, through a pooler if it insists, and queries sent over another one.

    `on_end` is called with the id of a run that has ended, `on_change` when `is_proved` changes.
    """

    _link: Link
    _connection: Callable[[], AbstractAsyncContextManager[Any]]
    """Gives one for queries."""
    _schema: str
    _insists: bool = False
    _heard_probe: asyncio.Event = field(default_factory=asyncio.Event)
    _is_reported: bool = False
    is_proved: bool = False
    """Whether notifications are known to arrive."""
    on_end: Callable[[int], None] = lambda _: None
    on_change: Callable[[], None] = lambda: None

    async def look(self, run_ids: list[int]) -> tuple[list[int], list[int]]:
        """(those that have ended, those whose end no notification will report) of these runs."""
        async with self._connection() as connection:
            if not self.is_proved:
                return await ended_runs(connection, run_ids, schema=self._schema), run_ids
            ended, unmarked = await await_runs.row(connection, run_ids, schema=self._schema)
        return ended, unmarked

    async def keep_listening(self) -> None:
        """Listens, and again after the connection broke, until it is cancelled."""
        while True:
            try:
                pause = await self._listen()
            except PgcronError:
                pause = RECONNECT_SECONDS
            finally:
                self._link.drop()
                self._prove(False)
            await asyncio.sleep(pause)

    async def _listen(self) -> float:
        """Listen until the connection breaks; how long to wait before the next attempt."""
        self._heard_probe.clear()
        listens = await self._link.listen(self._hear, "end_channel", self._insists)
        async with self._connection() as connection:
            await probe_ends(connection, schema=self._schema)
        if not await wait_at_most(self._heard_probe, PROBE_SECONDS if listens else 0):
            if not self._is_reported:
                self._is_reported = True
                emit(EndsAreNotNotified(PROBE_SECONDS))
            return UNRESPONSIVE_SECONDS
        await self._link.wait_closed()
        return 0

    def _hear(self, payload: str) -> None:
        if payload == _PROBE:
            self._heard_probe.set()
            self._prove(True)
        elif payload.isdecimal():
            self.on_end(int(payload))

    def _prove(self, is_proved: bool) -> None:
        if self.is_proved != is_proved:
            self.is_proved = is_proved
            self.on_change()


class Waiting:
    """The waiters of one event loop."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        notifications.on_end, notifications.on_change = self._end, self._change
        self._waiters: dict[int, set[asyncio.Future[None]]] = {}
        self._reported: set[int] = set()
        """Those whose end a notification will report."""
        self._net_at = 0.0
        self._poked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def is_listening(self) -> bool:
        """Whether notifications report ends, so that polling only finds missed ones."""
        return self._notifications.is_proved

    async def until_ended(self, run_id: int, timeout: float | None = None) -> None:
        """Returns when the run has ended. Raises WaitTimedOut, and what a query raises; an outage
        of the database does not end the wait.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(run_id, set()).add(waiter)
        self._poked.set()  # a new run may be a short one
        if self._task is None or self._task.done():
            self._pause = FIRST_PAUSE_SECONDS
            self._task = asyncio.create_task(self._keep_looking())
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            raise timed_out(run_id, timeout) from None
        finally:
            waiters = self._waiters[run_id]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[run_id]
                self._reported.discard(run_id)

    async def close(self) -> None:
        """Every waiter gets an error; returns when nothing of it uses a connection."""
        self._report_all(PgcronError("the App was closed while a run was waited for"))
        await _stop(self._task, self._listening)

    async def _keep_looking(self) -> None:
        while self._waiters:  # one may have come while the last listening was stopped
            self._listening = asyncio.create_task(self._notifications.keep_listening())
            try:
                while self._waiters or await self._linger():
                    self._poked.clear()
                    try:
                        await self._look_once()
                    except DatabaseUnavailable:
                        self._pause = LONGEST_PAUSE_SECONDS
                    except Exception as error:
                        self._report_all(error)
                    await self._rest()
            finally:
                await _stop(self._listening)

    async def _linger(self) -> bool:
        """Whether there is a new waiter."""
        self._poked.clear()
        self._pause = FIRST_PAUSE_SECONDS
        return await wait_at_most(self._poked, LINGER_SECONDS)

    async def _rest(self) -> None:
        """Until the next query: soon, if there is a new waiter."""
        if await wait_at_most(self._poked, self._pause):
            # A query costs more for more runs.
            await asyncio.sleep(FIRST_PAUSE_SECONDS + len(self._waiters) * _SECONDS_FOR_EACH)
            self._pause = FIRST_PAUSE_SECONDS
        else:
            self._pause = min(LONGEST_PAUSE_SECONDS, self._pause * 1.5)

    async def _look_once(self) -> None:
        now = monotonic()
        is_net = now >= self._net_at
        asked = [run for run in self._waiters if is_net or run not in self._reported]
        if is_net:
            self._net_at = now + NET_SECONDS
        ended, unmarked = await self._notifications.look(asked) if asked else ([], [])
        if self.is_listening:  # still: what `_change` forgot meanwhile stays forgotten
            self._reported.update(run for run in asked if run in self._waiters)
        self._reported.difference_update(unmarked, ended)
        for run_id in ended:
            self._end(run_id)
        if self._waiters and self._reported.issuperset(self._waiters):
            self._pause = max(FIRST_PAUSE_SECONDS, self._net_at - monotonic())

    def _end(self, run_id: int) -> None:
        for waiter in self._waiters.get(run_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _change(self) -> None:
        """Notifications arrive from now on, or no longer: what was missed meanwhile is polled."""
        self._reported.clear()
        self._net_at = 0.0
        self._poked.set()

    def _report_all(self, error: Exception) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)


async def _stop(*tasks: asyncio.Task[None] | None) -> None:
    """Cancels them and waits for their end: what they were opening is closed by then. Again and
    again, as an answer that arrives at that moment may swallow it (`asyncio.wait_for` in 3.11).
    """
    while running := {task for task in tasks if task is not None and not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_CANCEL_AGAIN_SECONDS)
