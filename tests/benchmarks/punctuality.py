"""How late fires start when many schedules name the same second.

The baseline is the limit of the approach without any schedule: as many rows in one INSERT with a
NOTIFY to the bare loop, half of the bursts before the node's fires and half after them.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import machine, stage
from tests.benchmarks.bare_listener import CHANNEL, BareListener
from tests.benchmarks.bare_loop import TABLE
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import count_starts, read_starts

_BASELINE: Final = "as many rows in one INSERT and NOTIFY to the bare loop"
_LEAD_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.2
_BURST_PAUSE_SECONDS: Final = 0.5
_MOST_BURSTS: Final = 6


@dataclass(frozen=True)
class Timetable:
    """So many schedules that all fire every `period` seconds, a divisor of 60, `ticks` times."""

    schedules: int
    period: int
    ticks: int
    overlap: str

    @property
    def spec(self) -> str:
        """The spec of each of them."""
        return "* * * * *" if self.period == 60 else f"*/{self.period} * * * * *"

    @property
    def fires(self) -> int:
        """Of all schedules in all ticks."""
        return self.schedules * self.ticks


@dataclass(frozen=True)
class Fired:
    """What came of a timetable: delays in seconds, processor time in seconds, memory in bytes."""

    delays: list[float]
    skipped: int
    worker_cpu: float
    server_cpu: float | None
    peak_memory: int


async def same_second(ground: Ground, sizes: Sizes) -> Result:
    """Some hundred schedules, every ten seconds, with the default policy."""
    timetable = Timetable(sizes.second_schedules, sizes.second_period, sizes.second_ticks, "skip")
    return await _benchmark(ground, "same_second", timetable, "≤ 50")


async def every_second(ground: Ground, sizes: Sizes) -> Result:
    """A thousand schedules, every second."""
    timetable = Timetable(sizes.every_second_schedules, 1, sizes.every_second_ticks, "allow")
    return await _benchmark(ground, "every_second", timetable, "≤ 100")


async def every_minute_allow(ground: Ground, sizes: Sizes) -> Result:
    """Ten thousand schedules, every minute, that may overlap."""
    timetable = Timetable(sizes.minute_schedules, sizes.minute_period, sizes.minute_ticks, "allow")
    return await _benchmark(ground, "every_minute_allow", timetable, "≤ 500")


async def every_minute_skip(ground: Ground, sizes: Sizes) -> Result:
    """The same with the default policy, which has to be decided for each run."""
    timetable = Timetable(sizes.minute_schedules, sizes.minute_period, sizes.minute_ticks, "skip")
    return await _benchmark(ground, "every_minute_skip", timetable, "≤ 1000")


async def _benchmark(ground: Ground, name: str, timetable: Timetable, goal: str) -> Result:
    result = Result(
        name,
        _BASELINE,
        {
            "schedules": timetable.schedules,
            "every s": timetable.period,
            "ticks": timetable.ticks,
            "overlap": timetable.overlap,
        },
    )
    bursts = min(timetable.ticks, _MOST_BURSTS)
    with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder:
        async with ground.place() as place:
            await place.observer.execute(TABLE)
            bare = await _bare_bursts(
                place, Path(folder) / "before", timetable.schedules, math.ceil(bursts / 2)
            )
            fired = await _fire(place, Path(folder) / "starts", timetable)
            bare += await _bare_bursts(
                place, Path(folder) / "after", timetable.schedules, bursts // 2
            )
    _add_figures(result, timetable, fired, bare, goal)
    return result.finished()


def _add_figures(
    result: Result, timetable: Timetable, fired: Fired, bare: list[float], goal: str
) -> None:
    for name, part, sentence in (("p50", 0.5, ""), ("p99", 0.99, goal), ("worst", 1.0, "")):
        values = [percentile(delays, part) for delays in (fired.delays, bare)]
        late, base = (None if value is None else value * 1000 for value in values)
        result.add(f"start delay, {name}", late, "ms", base, sentence)
    result.add("fires that started", len(fired.delays), "fires", timetable.fires)
    result.add("fires skipped by overlap", fired.skipped, "fires")
    worker, server = fired.worker_cpu, fired.server_cpu
    result.add("CPU of the worker", worker / timetable.fires * 1e6, "µs/fire")
    if server is not None:
        result.add("CPU of the server", server / timetable.fires * 1e6, "µs/fire")
    result.add("peak memory of the node", fired.peak_memory / 1e6, "MB")


async def _bare_bursts(place: Place, starts: Path, rows: int, bursts: int) -> list[float]:
    """Delays in seconds from just before the INSERT to each job's start."""
    insert = (
        "INSERT INTO public.bare_job (payload)"
        " SELECT jsonb_build_object('asked_at', $1::float8) FROM generate_series(1, $2::int)"
    )
    with BareListener(place.dsn, starts):
        for number in range(1, bursts + 1):
            await asyncio.sleep(_BURST_PAUSE_SECONDS)
            async with place.observer.transaction():
                await place.observer.execute(insert, time.time(), rows)
                await place.observer.execute(f"NOTIFY {CHANNEL}")

            async def all_began(expected: int = number * rows) -> bool:
                return count_starts(starts) >= expected

            await stage.until("the burst has begun", all_began)
    return [start.delay for start in read_starts(starts)]


async def _fire(place: Place, starts: Path, timetable: Timetable) -> Fired:
    """The fires of whole ticks, all decided before the first of them."""
    await place.observer.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
        " SELECT 'schedule ' || number, $1, 'py:stamp', $2"
        " FROM generate_series(1, $3::int) number",
        *(timetable.spec, timetable.overlap, timetable.schedules),
    )
    await stage.settle(place.observer, "pgcron.schedule, pgcron.cursor")
    with NodeProcess(place.dsn, starts=starts) as node:
        await stage.joined(place.observer, node)
        await stage.until("all are decided", lambda: _are_decided(place), _LOOK_SECONDS)
        first = math.ceil((time.time() + _LEAD_SECONDS) / timetable.period) * timetable.period
        end = first + timetable.ticks * timetable.period
        await asyncio.sleep(first - time.time() - _LEAD_SECONDS / 2)
        worker, server = machine.cpu_seconds(node.pid), place.server_cpu()
        await asyncio.sleep(end - time.time() - _LEAD_SECONDS / 10)
        await stage.until("all have begun", lambda: _have_begun(place, end), _LOOK_SECONDS)
        worker = machine.cpu_seconds(node.pid) - worker
        server_cpu = difference(server, place.server_cpu())
        memory = machine.peak_memory_bytes(node.pid)
        skipped = await place.observer.fetchval(
            "SELECT count(*) FROM pgcron.history WHERE outcome = 'skipped'"
            " AND scheduled_for >= to_timestamp($1) AND scheduled_for < to_timestamp($2)",
            *(first, end),
        )
    delays = [start.delay for start in read_starts(starts) if first <= start.asked_at < end]
    return Fired(delays, skipped, worker, server_cpu, memory)


async def _are_decided(place: Place) -> bool:
    return not await place.observer.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.cursor WHERE status = 'unchecked')"
    )


async def _have_begun(place: Place, end: float) -> bool:
    return not await place.observer.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.run WHERE scheduled_for < to_timestamp($1))", end
    )
