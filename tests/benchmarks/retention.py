"""A rule of retention that removes nine of ten ended runs of ten days, and what claims and endings
notice of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.db import control
from tests.db.retention import ended, make_days
from tests.product.db import Link, connect
from tests.product.engine import Janitor

DAYS: Final = 10
_RULE: Final = "SELECT pgcron.set_retention('1 day', 'mail', 'succeeded')"
_SIZE: Final = (
    "SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits"
    " WHERE inhparent = 'pgcron.history'::regclass"
)


@dataclass
class Waits:
    """Seconds that each claim, and each ending, of one run after the other took."""

    claims: list[float] = field(default_factory=list)
    endings: list[float] = field(default_factory=list)


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """One run after the other is claimed and ended: first alone, then while history is swept."""
    rows = sizes.retention_rows
    result = Result(
        "retention", "the same before there was a rule", {"runs": rows, "removed": "90 %"}
    )
    async with ground.place() as place:
        await _fill(place, rows)
        before = await place.observer.fetchval(_SIZE)
        alone = await _watched(place, asyncio.sleep(sizes.retention_seconds))
        await place.observer.execute(_RULE)
        server, began = place.server_cpu(), time.monotonic()
        swept = await _watched(place, _sweep(place))
        seconds = time.monotonic() - began
        used = (place.server_cpu() or 0.0) - (server or 0.0)
        left = await place.observer.fetchval(
            "SELECT count(*) FROM pgcron.history WHERE created_by = 'ana'"
        )
        removed = await place.observer.fetchval(
            "SELECT sum(removed)::bigint FROM pgcron.retention_sweep"
        )
        after = await place.observer.fetchval(_SIZE)
    result.add("removed", removed / seconds, "runs/s")
    result.add("time in all", seconds, "s")
    result.add("server's processor time, the probe's too", used, "s")
    result.add("runs left", left, "runs", rows)
    result.add("size of history", after / 2**20, "MB", before / 2**20)
    for name, there, here in (
        ("claim", alone.claims, swept.claims),
        ("ending", alone.endings, swept.endings),
    ):
        for word, part in (("median", 0.5), ("99 %", 0.99), ("longest", 1.0)):
            result.add(f"{word} {name}", _ms(here, part), "ms", _ms(there, part))
    return result.finished()


async def _fill(place: Place, rows: int) -> None:
    """Nine of ten are of the queue and outcome that the rule is about."""
    await make_days(place.observer, DAYS + 1)
    for ago in range(2, DAYS + 2):
        for tenth in range(10):
            await ended(
                place.observer,
                ago,
                rows // DAYS // 10,
                queue="mail",
                outcome="dead" if tenth == 5 else "succeeded",
            )
    await place.observer.execute("VACUUM ANALYZE pgcron.history")
    await place.observer.execute("CHECKPOINT")


async def _sweep(place: Place) -> None:
    link = Link(place.dsn)
    janitor = Janitor(link, "pgcron")
    try:
        while await janitor.run_once() == 0:
            pass
    finally:
        await link.close()


async def _watched(place: Place, work: Awaitable[None]) -> Waits:
    waits = Waits()
    connection = await connect(place.dsn)
    watching = asyncio.ensure_future(work)
    try:
        node = await control.join(connection, lease_ttl=300)
        while not watching.done():
            await control.enqueue(connection)
            began = time.monotonic()
            claimed = await control.claim(connection, node)
            took = time.monotonic()
            await control.finish(connection, claimed)
            waits.claims.append(took - began)
            waits.endings.append(time.monotonic() - took)
            await asyncio.sleep(0)
        await watching
    finally:
        watching.cancel()
        await connection.close()
    return waits


def _ms(values: list[float], part: float) -> float | None:
    found = percentile(values, part)
    return None if found is None else found * 1000
