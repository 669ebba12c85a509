"""How long after the enqueue call an idle node starts the handler, beside the bare loop.

Both listen at the same time; runs for the one and jobs for the other alternate at random gaps.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
GOALS: Final = {"p50": "≤ 1.5 ×", "p95": "", "p99": "≤ 2 ×"}
_PARTS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


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
    add_delays(result, "SQL function", delays.sql, delays.bare, GOALS)
    add_delays(result, "Python client", delays.client, delays.bare, GOALS)
    return result.finished()


def add_delays(
    result: Result,
    way: str,
    delays: Sequence[float],
    base: Sequence[float],
    goals: Mapping[str, str],
) -> None:
    """Percentiles of seconds."""
    for name, part in _PARTS.items():
        figures = [_milliseconds(percentile(values, part)) for values in (delays, base)]
        result.add(f"{name}, {way}", figures[0], "ms", figures[1], goals.get(name, ""))


async def in_turn(
    asks: Sequence[Callable[[float], Awaitable[Any]]], count: int
) -> list[list[tuple[float, Any]]]:
    """Each of them `count` times, one after the other at random gaps: when, and the answer."""
    chance = random.Random(1)
    asked: list[list[tuple[float, Any]]] = [[] for _ in asks]
    for _ in range(count):
        for ask, answers in zip(asks, asked, strict=True):
            await asyncio.sleep(chance.uniform(*_GAPS))
            at = time.time()
            answers.append((at, await ask(at)))
    return asked


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
    connection = await own_session(place.dsn)
    client = await own_session(place.dsn)
    app = App(place.dsn)
    enqueue, bare = await connection.prepare(_ENQUEUE), await connection.prepare(BARE_ENQUEUE)

    async def ask_client(at: float) -> Any:
        return await app.enqueue("stamp", {"asked_at": at}, conn=client)

    try:
        by_sql, _, by_client = await in_turn([enqueue.fetchval, bare.fetchval, ask_client], count)
    finally:
        await connection.close()
        await client.close()
    return [at for at, _ in by_sql], [at for at, _ in by_client]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
