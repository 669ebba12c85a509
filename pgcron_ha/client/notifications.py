"""Hearing which awaited runs are over: one listening connection, while somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from pgcron_ha.client.run_status import await_ends, probe_ends
from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import PgcronError
from pgcron_ha.telemetry.events import EndsAreNotHeard
from pgcron_ha.telemetry.log import emit

PROBE_SECONDS: Final = 2.0
"""A notification that has not come by then doesn't come: there is a pooler between."""

RECONNECT_SECONDS: Final = 1.0
UNRESPONSIVE_SECONDS: Final = 60.0
"""Until another try, after a probe was not heard."""

_PROBE: Final = "probe"


class Notifications:
    """A connection that listens, and statements sent over another one.

    `on_end` is called with the id of a run that is over, `on_change` when `is_proved` changes.
    """

    def __init__(
        self,
        link: Link,
        connection: Callable[[], AbstractAsyncContextManager[Any]],
        schema: str,
        insists: bool = False,
    ) -> None:
        """`link` is to listen, also through a pooler when it `insists`; `connection` gives one to
        ask with, for a moment.
        """
        self._link = link
        self._insists = insists
        self._connection = connection
        self._schema = schema
        self._task: asyncio.Task[None] | None = None
        self._heard_probe = asyncio.Event()
        self._is_reported = False
        self.is_proved = False
        """Whether notifications are known to arrive."""
        self.on_end: Callable[[int], None] = lambda _: None
        self.on_change: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Listen from now on, and again after the connection broke; nothing if it does."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_listening())

    def end(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._link.drop()
        self.is_proved = False

    async def mark(self, run_ids: list[int]) -> tuple[list[int], list[int]]:
        """(those that are over, those whose end is not going to be told) of these runs."""
        async with self._connection() as connection:
            return await await_ends(connection, run_ids, self._schema)

    async def _keep_listening(self) -> None:
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
        """Until the connection breaks; how long to wait before the next try."""
        self._heard_probe.clear()
        listens = await self._link.listen(self._hear, "end_channel", self._insists)
        async with self._connection() as connection:
            await probe_ends(connection, self._schema)
        try:
            await asyncio.wait_for(self._heard_probe.wait(), PROBE_SECONDS if listens else 0)
        except TimeoutError:
            if not self._is_reported:
                self._is_reported = True
                emit(EndsAreNotHeard(PROBE_SECONDS))
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
