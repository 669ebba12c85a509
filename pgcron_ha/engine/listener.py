"""Hears NOTIFY as a wake-up. A lost one costs a poll interval, never a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from pgcron_ha.db.link import Link
from pgcron_ha.engine.service import Service
from pgcron_ha.telemetry.counters import COUNTERS

_RECONNECT_SECONDS: Final = 0.2


class Listener(Service):
    """Keeps one listening connection and passes each payload on."""

    name: ClassVar[str] = "listener"

    def __init__(self, link: Link, heard: Mapping[str, Callable[[], None]]) -> None:
        """`heard` maps a payload to what it wakes."""
        super().__init__(_RECONNECT_SECONDS)
        self._link = link
        self._heard = heard

    async def run_once(self) -> float | None:
        """Listens until the connection breaks. What was said in between is made up for by waking
        everybody once.
        """
        await self._link.listen(self._pass_on)
        COUNTERS.listens += 1
        for wake in self._heard.values():
            wake()
        await self._link.wait_closed()
        return None

    def stop(self) -> None:
        """Ends the connection, and with it the pass under way."""
        super().stop()
        self._link.drop()

    def _pass_on(self, payload: str) -> None:
        COUNTERS.notifications += 1
        wake = self._heard.get(payload)
        if wake is not None:
            wake()
