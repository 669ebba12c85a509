"""What a node without work costs: statements a second, as the server logs them, and CPU."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.benchmarks import machine, stage
from tests.benchmarks.figures import Result
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.statement_log import logged, statements

_SETTLING_SECONDS = 2.0


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """A node that has been idle for a moment already."""
    seconds = sizes.idle_seconds
    result = Result("idle", "a server without a node (CPU)", {"seconds": seconds})
    async with ground.place() as place:
        _, base_server = await _window(place, None, seconds)
        with NodeProcess(place.dsn) as node:
            await stage.joined(place.observer, node)
            await asyncio.sleep(min(_SETTLING_SECONDS, seconds))
            async with logged(place):
                before = len(statements(place))
                worker, server = await _window(place, node, seconds)
                found = statements(place)[before:]
            memory = machine.peak_memory_bytes(node.pid)
    result.add("statements of an idle node", len(found) / seconds, "1/s", None, "≤ 2")
    result.add("CPU of the node", worker, "% of a core")
    result.add("CPU of the server", server, "% of a core", base_server)
    result.add("peak memory of the node", memory / 1e6, "MB", None, "≤ 45")
    result.details["statements"] = dict(Counter(found).most_common())
    return result.finished()


async def _window(
    place: Place, node: NodeProcess | None, seconds: float
) -> tuple[float | None, float | None]:
    worker = machine.cpu_seconds(node.pid) if node else 0.0
    server = place.server_cpu()
    await asyncio.sleep(seconds)
    used = difference(server, place.server_cpu())
    worker = machine.cpu_seconds(node.pid) - worker if node else 0.0
    return worker / seconds * 100, None if used is None else used / seconds * 100
