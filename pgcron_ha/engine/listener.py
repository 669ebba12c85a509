"""Hears NOTIFY as a wake-up. A lost one costs a poll interval, never a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from pgcron_ha.db.link import Link
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import NotificationsAreLost
from pgcron_ha.telemetry.log import emit

_RECONNECT_SECONDS: Final = 0.2
# Through a pooler nothing is heard, whenever it is tried.
_POOLED_SECONDS: Final = 3600.0
_PROBE: Final = "probe"


class Listener(Service):
    """Keeps one listening connection and passes each payload on."""

    name: ClassVar[str] = "listener"

    def __init__(
        self,
        link: Link,
        probing: Link,
        heard: Mapping[str, Callable[[], None]],
        proved: Callable[[bool], None],
    ) -> None:
        """`heard` maps a payload to what it wakes; `proved` is told whether notifications are
        known to arrive, by one that is sent over the link `probing`.
        """
        super().__init__(_RECONNECT_SECONDS)
        self._link = link
        self._probing = probing
        self._heard = heard
        self._proved = proved
        self._is_told = False

    async def run_once(self) -> float | None:
        """Listens until the connection breaks. What was said in between is made up for by waking
        everybody once.
        """
        if not await self._link.listen(self._pass_on):
            self._link.drop()
            if not self._is_told:
                self._is_told = True
                emit(NotificationsAreLost(self.name))
            return _POOLED_SECONDS
        if self._stopping:  # told so while it was connecting, when there was nothing to end yet
            self._link.drop()
            return None
        COUNTERS.listens += 1
        for wake in self._heard.values():
            wake()
        try:
            await self._probing.rows("probe_listeners")
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
        self._link.drop()

    def _pass_on(self, payload: str) -> None:
        COUNTERS.notifications += 1
        if payload == _PROBE:
            self._proved(True)
        wake = self._heard.get(payload)
        if wake is not None:
            wake()
