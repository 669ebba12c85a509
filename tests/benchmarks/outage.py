"""All nodes were away for three days: how long until fifty schedules of every catch-up policy are
decided, and how much memory does it take?

Claims are paused, so that nothing but the decisions is measured. The baseline is the same outage of
a minute, from the start of the process to the last decision in both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.benchmarks import machine, stage
from tests.benchmarks.figures import Result
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.simulation.outages import OUTAGE, watched

_SHORT: Final = timedelta(minutes=1)
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True)
class Decided:
    """Seconds from joining to the last decision, and from the process's start; processor seconds;
    bytes; rows.
    """

    seconds: float
    since_start: float
    worker: float
    server: float | None
    memory: int
    rows: int


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """The long outage after the short one, each in a database of its own."""
    result = Result(
        "outage",
        "the same outage of one minute",
        {"schedules": len(watched(datetime.now(UTC))), "hours": OUTAGE.total_seconds() / 3600},
    )
    short = await _decided(ground, _SHORT)
    long = await _decided(ground, OUTAGE)
    result.add("from joining to the last decision", long.seconds, "s", short.seconds, "≤ 5")
    result.add("from the start of the process", long.since_start, "s", short.since_start)
    result.add("CPU of the node", long.worker, "s", short.worker)
    result.add("CPU of the server", long.server, "s", short.server)
    result.add("peak memory of the node", long.memory / 1e6, "MB", short.memory / 1e6)
    result.add("late fires that run", long.rows, "fires", short.rows)
    return result.finished()


async def _decided(ground: Ground, outage: timedelta) -> Decided:
    async with ground.place() as place:
        await place.observer.execute("UPDATE pgcron.cluster SET paused_at = now()")
        begin = await place.observer.fetchval("SELECT now()") - outage
        for each in watched(begin):
            await place.observer.execute(
                "INSERT INTO pgcron.schedule (name, spec, timezone, handler, overlap, catchup,"
                " catchup_window) VALUES ($1, $2, $3, 'py:stamp', $4, $5, $6)",
                *(each.name, each.spec, each.timezone, each.overlap, each.catchup, each.window),
            )
        await place.observer.execute("UPDATE pgcron.cursor SET watermark = $1, since = $1", begin)
        return await _watch(place)


async def _watch(place: Place) -> Decided:
    server, began = place.server_cpu(), time.monotonic()
    with NodeProcess(place.dsn) as node:
        await stage.joined(place.observer, node)
        joined = time.monotonic()

        async def are_decided() -> bool:
            node.check()
            return not await place.observer.fetchval(
                "SELECT EXISTS (SELECT FROM pgcron.cursor WHERE watermark < now())"
            )

        await stage.until("all is decided", are_decided, _LOOK_SECONDS)
        ended = time.monotonic()
        return Decided(
            ended - joined,
            ended - began,
            machine.cpu_seconds(node.pid),
            difference(server, place.server_cpu()),
            machine.peak_memory_bytes(node.pid),
            await place.observer.fetchval(
                "SELECT count(*) FROM pgcron.occurrence WHERE fire_at <= now()"
            ),
        )
