"""How long a run waits that was blocked when it was due, or that has a key of its own beside many.

Rules 18 and 19 of admission. A run that waited for the one before it is measured from where that
one began, which does nothing: so its end, the decision and the claim are in it. Keys are hashes: a
free one lies anywhere among the others.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import stage
from tests.benchmarks.figures import Result
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.pickup import add_delays, in_turn
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import count_starts, read_starts
from tests.sessions import own_session

_PLAIN: Final = (
    "SELECT pgcron.enqueue('py:stamp', jsonb_build_object('asked_at', $1::float8), priority => 0)"
)
_KEYED: Final = (
    "SELECT pgcron.enqueue('py:stamp', jsonb_build_object('asked_at', $1::float8),"
    " concurrency_key => md5('another ' || $2::text))"
)
# The second waits until the first is over.
_PAIR: Final = "SELECT pgcron.run_now('one by one') AS id FROM generate_series(1, 2)"
_SCHEDULE: Final = (
    "INSERT INTO pgcron.schedule (name, spec, handler, overlap, priority)"
    " VALUES ('one by one', '0 0 1 1 *', 'py:stamp', 'queue', 0)"
)
_BACKLOG: Final = (
    "INSERT INTO pgcron.run (handler, args, concurrency_key)"
    " SELECT $1, jsonb_build_object('seconds', $2::float8), md5((number % $3::int)::text)"
    " FROM generate_series(1, $4::int) number"
)
_SLOTS: Final = 16
_LONG_SECONDS: Final = 3600.0
_LONGEST_GAP: Final = 0.2
_TWICE: Final = {"p99": "≤ 2 ×"}
_numbers: Final = itertools.count()

Ask = Callable[[float], Awaitable[Any]]


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """On a database of its own for each."""
    result = Result(
        "pickup_gates",
        "plain runs in turn with them; of keys, the same node without the others",
        {
            "of each": sizes.pickups,
            "keys in backlog": sizes.backlog_keys,
            "full keys": sizes.full_keys,
        },
    )
    await _unblocked(result, ground, sizes.pickups, "on an idle node")
    await _unblocked(result, ground, sizes.pickups, "on a busy node", nap=0.02)
    many = f"a key beside {sizes.backlog_keys} in backlog"
    idle = await _beside_backlog(result, ground, sizes, f"{many}, {_SLOTS} slots", _SLOTS, 0.005)
    slots = 2 * sizes.backlog_keys
    await _beside_backlog(result, ground, sizes, f"{many}, a slot for each", slots, 0.3)
    await _beside_full_keys(result, ground, sizes, idle)
    return result.finished()


async def _unblocked(
    result: Result, ground: Ground, count: int, where: str, nap: float = 0.0
) -> None:
    """With `nap` all slots are taken by runs of a lower priority that last so long."""
    async with ground.place() as place, _service(place) as (service, starts):
        await place.observer.execute(_SCHEDULE)
        if nap:
            rows = _rows(_SLOTS / nap, 2 * count)
            await place.observer.execute(
                "INSERT INTO pgcron.run (handler, args) SELECT 'py:nap',"
                " jsonb_build_object('seconds', $1::float8) FROM generate_series(1, $2::int)",
                *(nap, rows),
            )
            await stage.settle(place.observer, "pgcron.run")
        with NodeProcess(place.dsn, starts=starts) as node:
            await stage.joined(place.observer, node)

            async def pair(_: float) -> Sequence[int]:
                return [row["id"] for row in await service.fetch(_PAIR)]

            plain, pairs = await in_turn([_asking(service, _PLAIN), pair], count)
            await _all_began(node, starts, 3 * count)
            if nap:
                await _still_waits(place)
        began = {start.run: start.at for start in read_starts(starts)}
    delays = [began[second] - began[first] for _, (first, second) in pairs]
    base = [began[run] - at for at, run in plain]
    name = f"unblocked when the run before it is over, {where}"
    add_delays(result, name, delays, base, _TWICE)


async def _beside_backlog(
    result: Result, ground: Ground, sizes: Sizes, name: str, slots: int, nap: float
) -> Sequence[float]:
    """One run of a new key at a time, while those of many keys wait, which last so long; the delays
    without these.
    """
    count, keys = sizes.pickups, sizes.backlog_keys
    async with ground.place() as place, _service(place) as (service, starts):
        with NodeProcess(place.dsn, {"NODE_SLOTS": str(slots)}, starts=starts) as node:
            await stage.joined(place.observer, node)
            alone = await _keyed(service, node, starts, count)
            rows = _rows(min(slots, keys) / nap, count)
            await place.observer.execute(_BACKLOG, "py:nap", nap, keys, rows)

            async def are_busy() -> bool:
                query = "SELECT count(*) FROM pgcron.run WHERE state = 'running'"
                return bool(await place.observer.fetchval(query) >= min(slots, keys) / 2)

            await stage.until("the node is busy", are_busy)
            beside = await _keyed(service, node, starts, count)
            await _still_waits(place)
    add_delays(result, name, beside, alone, {"p50": "≤ 2 ×", **_TWICE})
    return alone


async def _beside_full_keys(
    result: Result, ground: Ground, sizes: Sizes, alone: Sequence[float]
) -> None:
    """A node has a run of each key, and another looks for what may start."""
    keys = sizes.full_keys
    async with ground.place() as place, _service(place) as (service, starts):
        await place.observer.execute(_BACKLOG, "py:hold", _LONG_SECONDS, keys, 2 * keys)
        held = starts.with_name("held")
        with NodeProcess(place.dsn, {"NODE_SLOTS": str(keys)}, name="holder", starts=held) as other:

            async def all_are_held() -> bool:
                other.check()
                return count_starts(held) >= keys

            await stage.until("all keys are full", all_are_held)
            await stage.settle(place.observer, "pgcron.run")
            with NodeProcess(place.dsn, starts=starts) as node:
                await stage.joined(place.observer, node)
                beside = await _keyed(service, node, starts, sizes.pickups)
            other.kill()
    add_delays(result, f"a free key beside {keys} full ones", beside, alone, {"p99": "≤ 100"})


@asynccontextmanager
async def _service(place: Place) -> AsyncIterator[tuple[stage.Connection, Path]]:
    """Who asks, and where the starts are written down."""
    service = await own_session(place.dsn)
    try:
        with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder:
            yield service, Path(folder) / "starts"
    finally:
        await service.close()


def _asking(service: stage.Connection, statement: str, *more: Callable[[], str]) -> Ask:
    return lambda at: service.fetchval(statement, at, *(each() for each in more))


async def _keyed(
    service: stage.Connection, node: NodeProcess, starts: Path, count: int
) -> Sequence[float]:
    before = count_starts(starts)
    ask = _asking(service, _KEYED, lambda: str(next(_numbers)))
    [asked] = await in_turn([ask], count)
    await _all_began(node, starts, before + count)
    began = {start.run: start.at for start in read_starts(starts)}
    return [began[run] - at for at, run in asked]


async def _all_began(node: NodeProcess, starts: Path, expected: int) -> None:
    async def have_begun() -> bool:
        node.check()
        return count_starts(starts) >= expected

    await stage.until("all have begun", have_begun)


def _rows(rate: float, asks: int) -> int:
    """More than so many a second are in the time of the asks."""
    return round(rate * (asks * _LONGEST_GAP + 2))


async def _still_waits(place: Place) -> None:
    waits = "SELECT EXISTS (SELECT FROM pgcron.run WHERE handler = 'py:nap' AND state = 'ready')"
    if not await place.observer.fetchval(waits):
        raise RuntimeError("the backlog ended before the last of the runs was asked for")
