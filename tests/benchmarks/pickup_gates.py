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
# The second waits until the first is over; each pair is of a schedule of its own.
_PAIR: Final = "SELECT pgcron.run_now('pair ' || $1::text) AS id FROM generate_series(1, 2)"
_SCHEDULES: Final = (
    "INSERT INTO pgcron.schedule (name, spec, handler, overlap, priority)"
    " SELECT 'pair ' || number, '0 0 1 1 *', 'py:stamp', 'queue', 0"
    " FROM generate_series(1, $1::int) number"
)
_BACKLOG: Final = (
    "INSERT INTO pgcron.run (handler, args, concurrency_key)"
    " SELECT $1, jsonb_build_object('seconds', $2::float8), md5((number % nullif($3, 0))::text)"
    " FROM generate_series(1, $4::int) number"
)
_SLOTS: Final = 16
_ENDS: Final = 320  # a second, of the runs in backlog: a load, and no flood
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
    await _unblocked(result, ground, sizes.pickups, "on a busy node", is_busy=True)
    many = f"a key beside {sizes.backlog_keys} in backlog"
    idle = await _beside_backlog(result, ground, sizes, f"{many}, {_SLOTS} slots", _SLOTS)
    slots = 2 * sizes.backlog_keys
    await _beside_backlog(result, ground, sizes, f"{many}, a slot for each", slots)
    await _beside_full_keys(result, ground, sizes, idle)
    return result.finished()


async def _unblocked(
    result: Result, ground: Ground, count: int, where: str, *, is_busy: bool = False
) -> None:
    """A busy node has all its slots taken by runs of a lower priority."""
    name = f"unblocked when the run before it is over, {where}"
    async with ground.place() as place, _service(place) as (service, starts):
        await place.observer.execute(_SCHEDULES, count)
        if is_busy:
            await place.observer.execute(_BACKLOG, "py:nap", _SLOTS / _ENDS, 0, _rows(2 * count))
            await stage.settle(place.observer, "pgcron.run")
        with NodeProcess(place.dsn, starts=starts) as node:
            await stage.joined(place.observer, node)

            numbers = itertools.count(1)

            async def pair(_: float) -> Sequence[int]:
                return [row["id"] for row in await service.fetch(_PAIR, str(next(numbers)))]

            plain, pairs = await in_turn([_asking(service, _PLAIN), pair], count)
            await _all_began(node, starts, 3 * count)
            if is_busy:
                await _note_end(result, place, name)
        began = {start.run: start.at for start in read_starts(starts)}
    delays = [began[second] - began[first] for _, (first, second) in pairs]
    base = [began[run] - at for at, run in plain]
    add_delays(result, name, delays, base, _TWICE)


async def _beside_backlog(
    result: Result, ground: Ground, sizes: Sizes, name: str, slots: int
) -> Sequence[float]:
    """One run of a new key at a time, while those of many keys wait; the delays without these."""
    count, keys = sizes.pickups, sizes.backlog_keys
    async with ground.place() as place, _service(place) as (service, starts):
        with NodeProcess(place.dsn, {"NODE_SLOTS": str(slots)}, starts=starts) as node:
            await stage.joined(place.observer, node)
            alone = await _keyed(service, node, starts, count)
            most = min(slots, keys)
            rows = max(_rows(count), 3 * keys)
            await place.observer.execute(_BACKLOG, "py:nap", most / _ENDS, keys, rows)

            async def are_busy() -> bool:
                query = "SELECT count(*) FROM pgcron.run WHERE state = 'running'"
                return bool(await place.observer.fetchval(query) >= most / 2)

            await stage.until("the node is busy", are_busy)
            beside = await _keyed(service, node, starts, count)
            await _note_end(result, place, name)
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


def _rows(asks: int) -> int:
    """More than end in the time of the asks."""
    return round(_ENDS * (asks * _LONGEST_GAP + 2))


async def _note_end(result: Result, place: Place, name: str) -> None:
    """Who waits for a whole backlog to end waits longer beside a longer one."""
    waits = "SELECT EXISTS (SELECT FROM pgcron.run WHERE handler = 'py:nap' AND state = 'ready')"
    if not await place.observer.fetchval(waits):
        result.notes.append(f"{name}: some waited until the backlog had ended")
