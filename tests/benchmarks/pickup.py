"""How long after the enqueue call an idle node starts the handler, beside the bare loop.

Both listen at the same time; runs for the one and jobs for the other alternate at random gaps.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pgcron_ha import App
from tests.benchmarks import machine, stage
from tests.benchmarks.bare_listener import CHANNEL, BareListener
from tests.benchmarks.bare_loop import TABLE
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import count_starts, read_starts
from tests.sessions import own_session

BARE_ENQUEUE: Final = (
    "WITH job AS (INSERT INTO public.bare_job (payload)"
    " VALUES (jsonb_build_object('asked_at', $1::float8)) RETURNING id)"
    f" SELECT pg_notify('{CHANNEL}', '') FROM job"
)
_ENQUEUE: Final = "SELECT pgcron.enqueue('py:stamp', jsonb_build_object('asked_at', $1::float8))"
_GAPS: Final = (0.05, 0.15)


@dataclass(frozen=True)
class _Delays:
    sql: list[float]
    client: list[float]
    bare: list[float]


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """By the SQL function and by the Python client, each against the bare loop."""
    result = Result(
        "pickup",
        "the bare loop, woken by NOTIFY (INSERT and NOTIFY in one statement)",
        {"of each": sizes.pickups, "gaps ms": "50-150"},
    )
    with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder:
        async with ground.place() as place:
            delays = await _measure(place, Path(folder), sizes.pickups, result)
    for way, values in (("SQL function", delays.sql), ("Python client", delays.client)):
        for name, part, goal in (
            ("p50", 0.5, "≤ 1.5 ×"),
            ("p95", 0.95, ""),
            ("p99", 0.99, "≤ 2 ×"),
        ):
            result.add(
                f"{name}, {way}",
                _milliseconds(percentile(values, part)),
                "ms",
                _milliseconds(percentile(delays.bare, part)),
                goal,
            )
    return result.finished()


async def _measure(place: Place, folder: Path, count: int, result: Result) -> _Delays:
    await place.observer.execute(TABLE)
    starts, bare_starts = folder / "starts", folder / "bare_starts"
    with (
        NodeProcess(place.dsn, starts=starts) as node,
        BareListener(place.dsn, bare_starts) as bare,
    ):
        await stage.joined(place.observer, node)
        before = machine.cpu_seconds(node.pid), machine.cpu_seconds(bare.pid)
        server = place.server_cpu()
        by_sql, by_client = await _ask(place, count)

        async def all_began() -> bool:
            node.check()
            return count_starts(starts) >= 2 * count and count_starts(bare_starts) >= count

        await stage.until("all have begun", all_began)
        worker = (machine.cpu_seconds(node.pid) - before[0]) / (2 * count)
        base = (machine.cpu_seconds(bare.pid) - before[1]) / count
        both = difference(server, place.server_cpu())
    # A node goes on with its beats and looks between two runs: they are part of it.
    result.add("CPU of the worker", worker * 1e6, "µs/run", base * 1e6)
    if both is not None:
        result.add(
            "CPU of the server, node and bare loop together", both / (3 * count) * 1e6, "µs/run"
        )
    delays = {start.asked_at: start.delay for start in read_starts(starts)}
    return _Delays(
        [delays[at] for at in by_sql],
        [delays[at] for at in by_client],
        [start.delay for start in read_starts(bare_starts)],
    )


async def _ask(place: Place, count: int) -> tuple[list[float], list[float]]:
    """Enqueue in turn; the instants of the calls by the SQL function and by the client."""
    chance = random.Random(1)
    connection = await own_session(place.dsn)
    client = await own_session(place.dsn)
    app = App(place.dsn)
    enqueue, bare = await connection.prepare(_ENQUEUE), await connection.prepare(BARE_ENQUEUE)
    by_sql: list[float] = []
    by_client: list[float] = []

    async def ask_client(at: float) -> Any:
        return await app.enqueue("stamp", {"asked_at": at}, conn=client)

    try:
        for _ in range(count):
            for ask, asked in (
                (enqueue.fetchval, by_sql),
                (bare.fetchval, None),
                (ask_client, by_client),
            ):
                await asyncio.sleep(chance.uniform(*_GAPS))
                at = time.time()
                await ask(at)
                if asked is not None:
                    asked.append(at)
    finally:
        await connection.close()
        await client.close()
    return by_sql, by_client


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
