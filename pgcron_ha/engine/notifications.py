"""Wakes services by NOTIFY. A lost notification costs a poll interval, never a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.coroutines import wait_at_most
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import NotificationsAreLost, NotificationsArrive
from pgcron_ha.telemetry.log import emit

PROBE_SECONDS: Final = 3.0
"""A notification that has not come by then does not come."""

_RECONNECT_SECONDS: Final = 0.2
# Through a pooler no notification arrives, however often it is tried.
_POOLED_SECONDS: Final = 3600.0
# Until another try, after a probe did not arrive.
_UNRESPONSIVE_SECONDS: Final = 30.0
_PROBE: Final = "probe"
_POOLED: Final = (
    "the DSN leads through a pooler that hands sessions around (pgbouncer's transaction mode)"
)


@dataclass(eq=False)
class Listener(Service):
    """Keeps one listening connection and wakes what each payload names.

    ``_heard`` maps a payload to what it wakes. ``_proved`` is called with whether notifications are
    known to arrive; a probe over the link ``_probing`` finds out. ``_changed`` is called when
    `is_unresponsive` changes. With ``has_own_dsn`` the link does not use the DSN of the node's
    others, and the probe is made even through a pooler.
    """

    name: ClassVar[str] = "listener"
    longest_pass: ClassVar[float] = inf  # it lasts as long as the connection
    _link: Link
    _probing: Link
    _heard: Mapping[str, Callable[[], None]]
    _proved: Callable[[bool], None]
    _changed: Callable[[], None] = lambda: None
    has_own_dsn: bool = False
    _unresponsive_because: str | None = None

    def __post_init__(self) -> None:
        super().__init__(_RECONNECT_SECONDS)
        self._heard_probe = asyncio.Event()

    @property
    def is_unresponsive(self) -> bool:
        """Whether no notification arrives though the database answers. From any thread."""
        return self._unresponsive_because is not None

    async def run_once(self) -> float | None:
        """Listens until the connection breaks. Notifications may be missed between connections, so
        everything is woken once.
        """
        if not await self._listen():
            self._link.drop()
            self._report(_POOLED)
            return _POOLED_SECONDS
        if self._stopping:  # stopped while connecting, when there was nothing to end yet
            self._link.drop()
            return None
        COUNTERS.listens += 1
        for wake in self._heard.values():
            wake()
        try:
            self._heard_probe.clear()
            await self._probing.rows("probe_listeners")
            is_heard = await wait_at_most(self._heard_probe, PROBE_SECONDS)
            if not is_heard and self._link.is_open:
                await self._stop_listening()
                return _UNRESPONSIVE_SECONDS
            await self._link.wait_closed()
        except PgcronError:
            self._link.drop()  # the next pass would listen once more over the same connection
            raise
        finally:
            self._proved(False)
        return None

    def stop(self) -> None:
        """Ends the connection, and with it the pass under way."""
        super().stop()
        self._heard_probe.set()  # it is waited for no more
        self._link.drop()

    async def _listen(self) -> bool:
        try:
            return await self._link.listen(self._pass_on, insists=self.has_own_dsn)
        except PgcronError as error:
            if self.has_own_dsn:
                self._report(f"listen_dsn can't be used ({error.message})")
            raise

    async def _stop_listening(self) -> None:
        self._report(f"nothing was heard within {PROBE_SECONDS:g} s of LISTEN")
        if self._link.is_pooled:  # the server session that listens may belong to another client now
            await self._link.rows("stop_listening")
        self._link.drop()

    def _report(self, why: str | None) -> None:
        """Why no notification arrives, or that they do (None); it is said once."""
        if self._unresponsive_because != why:
            self._unresponsive_because = why
            emit(NotificationsAreLost(self.name, why) if why else NotificationsArrive(self.name))
            self._changed()

    def _pass_on(self, payload: str) -> None:
        COUNTERS.notifications += 1
        if payload == _PROBE:
            self._heard_probe.set()
            self._proved(True)
            self.went_well()
            self._report(None)
        if payload in self._heard:
            self._heard[payload]()
