"""What the pages of one application share; probes and metrics without pages have a part of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.pool import ClientPool
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.telemetry.node_snapshot import LookAtNode
from pgcron_ha.web.access import Access, Entry
from pgcron_ha.web.metrics import NodeCollector, WebMetrics
from pgcron_ha.web.reading import Reader

_PULSE_SECONDS: Final = 0.5


class Services:
    """What the pages of one application share."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        version: str = "0",
        look: LookAtNode | None = None,
        write_dsn: str | None = None,
        entry: Entry = Entry(),
    ) -> None:
        """Those of `create_app`."""
        self.version = version
        self.routes: Mapping[str, tuple[str, str]] = {}
        """By name the path of each, such as ``/schedules/{name}``, and the permission it needs."""
        self.look = look
        """At the node of this process, if it has one."""
        self.metrics = WebMetrics(version)
        if look is not None:
            self.metrics.registry.register(NodeCollector(look))
        self.pulsed_at = monotonic()
        """When the event loop last woke the pulse."""
        self.reader = Reader(dsn, self.metrics, schema)
        self.writers = ClientPool(write_dsn or dsn)
        """Where verbs are executed; what is read comes from `reader`."""
        self.access = Access(entry, self.writers, self.reader, self.metrics)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """Pulses in this block, and closes at its end what was opened."""
        pulse = asyncio.create_task(self._pulse())
        try:
            yield
        finally:
            pulse.cancel()
            await self.reader.close()
            await self.writers.close()

    async def _pulse(self) -> None:
        """Notes how late the event loop wakes it, until it is cancelled."""
        while True:
            expected = monotonic() + _PULSE_SECONDS
            await asyncio.sleep(_PULSE_SECONDS)
            self.pulsed_at = monotonic()
            self.metrics.lag.set(max(0.0, self.pulsed_at - expected))
