"""A million schedules that fire once an hour, evenly spread: does one node keep up, at what cost?

The schedules are loaded without their triggers. The node judges every one of them first, which is
measured too; then it gets the time to reach its steady state. Two windows follow: with the runs
executed, and with claims paused, where the node only materializes. The baseline is the same node,
idle, without a schedule.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import machine, stage
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import read_starts

_GOAL_SCHEDULES: Final = 1_000_000
_LOOK_SECONDS: Final = 0.5
_LEAST_SCALE: Final = 0.01

_LOAD: Final = """
SET session_replication_role = replica;
INSERT INTO pgcron.schedule (name, spec, handler, overlap)
SELECT 'schedule ' || number, format('%s %s * * * *', number % 60, number / 60 % 60), 'py:stamp',
       'allow'
FROM generate_series(1, {count}) number;
INSERT INTO pgcron.cursor (schedule_id, since, watermark) SELECT id, now(), now()
FROM pgcron.schedule;
RESET session_replication_role;
"""


@dataclass(frozen=True)
class Window:
    """Shares of a core in percent, and what happened a second."""

    worker: float
    server: float | None
    materialized: float

    @property
    def both(self) -> float | None:
        """Of node and server together."""
        return None if self.server is None else self.worker + self.server


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """Memory is the most the node ever had, the first pass over all schedules included."""
    count, seconds = sizes.hourly_schedules, sizes.hourly_seconds
    result = Result(
        "hourly",
        "the same node, idle, without schedules",
        {"schedules": count, "scaled by": count / _GOAL_SCHEDULES, "seconds": seconds},
    )
    with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder:
        async with ground.place() as place:
            idle, idle_memory = await _idle(place, seconds)
            await place.observer.execute(_LOAD.format(count=count))
            await stage.settle(place.observer, "pgcron.schedule, pgcron.cursor")
            starts = Path(folder) / "starts"
            with NodeProcess(place.dsn, starts=starts) as node:
                await _first_pass(result, place, node, count)
                judged_at = time.time()
                await asyncio.sleep(sizes.hourly_settle_seconds)
                executing, late, behind = await _executing(place, node, starts, seconds)
                await place.observer.execute("UPDATE pgcron.cluster SET paused_at = now()")
                paused = await _window(place, node, seconds)
                memory = machine.peak_memory_bytes(node.pid)
                missed = await place.observer.fetchval(
                    "SELECT coalesce(sum(fires), 0)::int FROM pgcron.missed"
                )
            early = [s.delay * 1000 for s in read_starts(starts) if s.asked_at < judged_at]
    _add_figures(result, idle, executing, paused, count / 3600)
    result.add("start delay, p99", late, "ms")
    result.add("start delay during the first pass, worst", percentile(early, 1.0), "ms")
    result.add("fires missed, all in all", missed, "fires", None, "0")
    result.add("schedules behind at the end", behind, "schedules", None, "0")
    result.add("peak memory of the node", memory / 1e6, "MB", idle_memory / 1e6, "≤ 100")
    return result.finished()


def _add_figures(
    result: Result, idle: Window, executing: Window, paused: Window, due: float
) -> None:
    result.add("CPU of the node, materializing only", paused.worker, "% of a core", idle.worker)
    result.add("CPU of the node, executing too", executing.worker, "% of a core", idle.worker)
    if _LEAST_SCALE <= 3600 * due / _GOAL_SCHEDULES < 1:
        _add_derived(result, idle, executing, paused, _GOAL_SCHEDULES / 3600 / due)
    for name, window in (("materializing only", paused), ("executing too", executing)):
        result.add(f"CPU of the server, {name}", window.server, "% of a core", idle.server)
        goal = "≤ 15 at a million"
        result.add(f"CPU of both, {name}", window.both, "% of a core", idle.both, goal)
    result.add("fires materialized, executing too", executing.materialized, "1/s", due)
    result.add("fires materialized, materializing only", paused.materialized, "1/s", due)


def _add_derived(
    result: Result, idle: Window, executing: Window, paused: Window, factor: float
) -> None:
    """A million schedules have `factor` times as many fires a second: not measured, multiplied."""
    for name, window in (("materializing only", paused), ("executing too", executing)):
        share = idle.worker + (window.worker - idle.worker) * factor
        result.add(f"derived for a million, {name}", share, "% of a core", idle.worker)


async def _idle(place: Place, seconds: float) -> tuple[Window, int]:
    with NodeProcess(place.dsn) as node:
        await stage.joined(place.observer, node)
        await asyncio.sleep(1)
        return await _window(place, node, seconds), machine.peak_memory_bytes(node.pid)


async def _first_pass(result: Result, place: Place, node: NodeProcess, count: int) -> None:
    """Every schedule is parsed and gets its next fire."""
    await stage.joined(place.observer, node)
    began, worker, server = time.monotonic(), machine.cpu_seconds(node.pid), place.server_cpu()

    async def are_judged() -> bool:
        node.check()
        return not await place.observer.fetchval(
            "SELECT EXISTS (SELECT FROM pgcron.cursor WHERE next_fire IS NULL)"
        )

    await stage.until("all are judged", are_judged, _LOOK_SECONDS)
    seconds = time.monotonic() - began
    worker = machine.cpu_seconds(node.pid) - worker
    goal = "≥ 8,333: a million in 2 min"
    result.add("first pass over all schedules", count / seconds, "schedules/s", None, goal)
    result.add("first pass, CPU of the node", worker / count * 1e6, "µs/schedule")
    used = difference(server, place.server_cpu())
    if used is not None:
        result.add("first pass, CPU of the server", used / count * 1e6, "µs/schedule")


async def _executing(
    place: Place, node: NodeProcess, starts: Path, seconds: float
) -> tuple[Window, float | None, int]:
    """The window, the delays of the fires that were due in it, and who was behind at its end."""
    began = time.time()
    window = await _window(place, node, seconds)
    behind = await place.observer.fetchval(
        "SELECT count(*) FROM pgcron.cursor WHERE next_fire <= now()"
    )
    delays = [start.delay for start in read_starts(starts) if start.asked_at >= began]
    late = percentile(delays, 0.99)
    return window, None if late is None else late * 1000, behind


async def _window(place: Place, node: NodeProcess, seconds: float) -> Window:
    ledger = "SELECT count(*) FROM pgcron.occurrence"
    before = await place.observer.fetchval(ledger)
    worker, server = machine.cpu_seconds(node.pid), place.server_cpu()
    await asyncio.sleep(seconds)
    worker = machine.cpu_seconds(node.pid) - worker
    used = difference(server, place.server_cpu())
    made = await place.observer.fetchval(ledger) - before
    return Window(
        worker / seconds * 100, None if used is None else used / seconds * 100, made / seconds
    )
