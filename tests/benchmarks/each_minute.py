"""A hundred thousand schedules that fire each minute, their seconds spread evenly: do one and three
nodes keep up, at what cost?

First one node, then two more beside it. Each time two windows follow: with the runs executed, and
with claims paused, where the nodes only materialize. The baseline of the cost is the same node,
idle, without a schedule; that of the rate is what is due.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import machine, stage
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import read_starts

_LOOK_SECONDS: Final = 0.2
_MORE_NODES: Final = 2

_PUT: Final = (
    "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
    " SELECT 'schedule ' || number, number % 60 || ' * * * * *', 'py:stamp', 'allow'"
    " FROM generate_series(1, $1::int) number"
)


@dataclass(frozen=True)
class Window:
    """Shares of a core in percent, all nodes together; the rest is counted a second."""

    nodes: float
    server: float | None
    transactions: float
    decided: float


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """The delay of a fire is from its second to its handler's first line."""
    count, seconds = sizes.spread_schedules, sizes.spread_seconds
    result = Result(
        "each_minute",
        "the same node, idle, without schedules; what is due",
        {"schedules": count, "seconds": seconds},
    )
    with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder, ExitStack() as nodes:
        async with ground.place() as place:
            starts = Path(folder) / "starts"
            first = nodes.enter_context(NodeProcess(place.dsn, starts=starts))
            await stage.joined(place.observer, first)
            await asyncio.sleep(1)
            idle = await _window(place, [first], seconds)
            await place.observer.execute(_PUT, count)
            await stage.settle(place.observer, "pgcron.schedule, pgcron.cursor")
            await stage.until("all are decided", lambda: _are_judged(place), _LOOK_SECONDS)
            running = [first]
            await _measure(result, place, running, starts, idle, sizes)
            for number in range(_MORE_NODES):
                other = NodeProcess(place.dsn, starts=starts, name=f"other-{number}")
                running.append(nodes.enter_context(other))
                await stage.joined(place.observer, other)
            await _measure(result, place, running, starts, idle, sizes)
            missed = await place.observer.fetchval(
                "SELECT coalesce(sum(fires), 0)::int FROM pgcron.missed"
            )
            memory = max(machine.peak_memory_bytes(node.pid) for node in running)
    result.add("fires missed, all in all", missed, "fires", None, "0")
    result.add("peak memory of a node", memory / 1e6, "MB")
    return result.finished()


async def _measure(
    result: Result,
    place: Place,
    nodes: Sequence[NodeProcess],
    starts: Path,
    idle: Window,
    sizes: Sizes,
) -> None:
    """Both windows, after the time in which what came together while all was judged is over."""
    seconds, due = sizes.spread_seconds, sizes.spread_schedules / 60
    words = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    await asyncio.sleep(sizes.spread_settle_seconds)
    began = time.time()
    executing = await _window(place, nodes, seconds)
    ended = time.time()
    await place.observer.execute("UPDATE pgcron.cluster SET paused_at = now()")
    paused = await _window(place, nodes, seconds)
    await stage.release_runs(place.observer)
    await stage.until("what has waited is done", lambda: _is_done(place), _LOOK_SECONDS)
    delays = [s.delay * 1000 for s in read_starts(starts) if began <= s.asked_at < ended]
    for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("worst", 1.0)):
        result.add(f"{words}: start delay, {name}", percentile(delays, part), "ms")
    result.add(f"{words}: fires that started", len(delays) / (ended - began), "1/s", due)
    for window, name in ((executing, "executing too"), (paused, "materializing only")):
        result.add(f"{words}: CPU of the nodes, {name}", window.nodes, "% of a core", idle.nodes)
        result.add(f"{words}: CPU of the server, {name}", window.server, "% of a core", idle.server)
        result.add(f"{words}: transactions, {name}", window.transactions, "1/s", idle.transactions)
        result.add(f"{words}: fires decided, {name}", window.decided, "1/s", due)


async def _window(place: Place, nodes: Sequence[NodeProcess], seconds: float) -> Window:
    before = await _counted(place)
    used, server = sum(machine.cpu_seconds(node.pid) for node in nodes), place.server_cpu()
    began = time.monotonic()
    await asyncio.sleep(seconds)
    used = sum(machine.cpu_seconds(node.pid) for node in nodes) - used
    server = difference(server, place.server_cpu())
    seconds = time.monotonic() - began
    transactions, decided = [
        (after - earlier) / seconds
        for after, earlier in zip(await _counted(place), before, strict=True)
    ]
    return Window(
        used / seconds * 100,
        None if server is None else server / seconds * 100,
        transactions,
        decided,
    )


async def _counted(place: Place) -> tuple[int, int]:
    """Transactions, each of which is one statement of a node; and rows of the ledger."""
    await place.observer.execute("SELECT pg_stat_clear_snapshot()")
    row = await place.observer.fetchrow(
        "SELECT d.xact_commit + d.xact_rollback, (SELECT count(*) FROM pgcron.occurrence)"
        " FROM pg_stat_database d WHERE d.datname = current_database()"
    )
    assert row is not None
    return row[0], row[1]


async def _are_judged(place: Place) -> bool:
    return not await place.observer.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.cursor WHERE status = 'unchecked')"
    )


async def _is_done(place: Place) -> bool:
    return not await place.observer.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.run WHERE due_at < now() - interval '2 seconds')"
    )
