"""What the pages of one application share; probes and metrics without pages have a part of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from pgcron_ha.db.driver.pool import ClientPools
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.telemetry.node_snapshot import LookAtNode
from pgcron_ha.web.access import Access, Entry
from pgcron_ha.web.metrics import NodeCollector, Pulse, WebMetrics
from pgcron_ha.web.reading import Reader


@dataclass(frozen=True)
class Services:
    """What the pages of one application share."""

    dsn: str
    """Where verbs are executed; what is read comes from `reader`."""
    version: str
    reader: Reader
    writers: ClientPools
    paths: Mapping[str, str]
    """Of all routes, by name, such as ``/schedules/{name}``."""
    permissions: Mapping[str, str]
    """What each route needs."""
    metrics: WebMetrics
    pulse: Pulse
    access: Access
    look: LookAtNode | None = None
    """At the node of this process, if it has one."""

    @classmethod
    def made(
        cls,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        version: str = "0",
        look: LookAtNode | None = None,
        write_dsn: str | None = None,
        entry: Entry = Entry(),
        paths: Mapping[str, str] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> Self:
        """Those of `create_app`; without `paths` those of probes and metrics alone."""
        metrics = WebMetrics(version)
        if look is not None:
            metrics.registry.register(NodeCollector(look))
        reader, writers, verbs = Reader(dsn, metrics, schema), ClientPools(), write_dsn or dsn
        return cls(
            dsn=verbs,
            version=version,
            reader=reader,
            writers=writers,
            paths=paths or {},
            permissions=permissions or {},
            metrics=metrics,
            pulse=Pulse(metrics),
            access=Access(entry, verbs, writers, reader, metrics),
            look=look,
        )

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """Pulses in this block, and closes at its end what was opened."""
        pulse = asyncio.create_task(self.pulse.run())
        try:
            yield
        finally:
            pulse.cancel()
            await self.reader.close()
            await self.writers.close()
