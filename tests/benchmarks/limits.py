"""What a limit costs: the same runs with lanes, in a limited queue, and beside a paused queue full
of due runs, against plain runs of the same round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.drains import Drain, add_costs, drain_with_node, median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes

HOT_LANES: Final = 1000
_MANY: Final = 100_000


@dataclass
class Way:
    """One kind of runs: `begin` sets its database up, `lane` is the lane of run `number` in SQL."""

    name: str
    begin: Callable[[Place], Awaitable[object]]
    lane: str | None = None
    queues: tuple[str, ...] = ("default",)
    place: Place | None = None
    drains: list[Drain] = field(default_factory=list)


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """One node on a database of each way, in turn."""
    result = Result(
        "limits",
        "the same node and plain runs, in the same round",
        {
            "runs": sizes.limit_runs,
            "rounds": sizes.limit_rounds,
            "hot lanes": HOT_LANES,
            "due runs of the paused queue": sizes.limit_paused_rows,
        },
    )
    ways = [
        Way("plain", _nothing),
        Way("1,000 lanes of one slot", _nothing, f"'lane ' || number % {HOT_LANES}"),
        Way("a lane without a limit", _say("SELECT pgcron.set_lane('*', NULL)"), "'tenant'"),
        Way(
            "a lane with a rate",
            _say("SELECT pgcron.set_lane('*', NULL, rate => 1000000, per => '1 second')"),
            "'tenant'",
        ),
        Way("a limited queue", _say(f"SELECT pgcron.set_queue('default', {_MANY})")),
        Way(
            "beside a paused queue",
            _pause(sizes.limit_paused_rows),
            queues=("default", "paused"),
        ),
    ]
    async with AsyncExitStack() as stack:
        for way in ways:
            way.place = await stack.enter_async_context(ground.place())
            await way.begin(way.place)
        for number in range(sizes.limit_rounds):
            for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                assert way.place is not None
                way.drains.append(
                    await drain_with_node(
                        way.place,
                        sizes.limit_runs,
                        keeps_rows=True,
                        lane=way.lane,
                        queues=way.queues,
                    )
                )
    plain = ways[0].drains
    for way in ways[1:]:
        rate = median(each.rate for each in way.drains)
        result.add(f"{way.name}: rate", rate, "runs/s", median(each.rate for each in plain))
        add_costs(result, way.drains, plain, name=f"{way.name}: ")
    result.details = {way.name: [asdict(each) for each in way.drains] for way in ways}
    return result.finished()


async def _nothing(place: Place) -> None:
    pass


def _say(statement: str) -> Callable[[Place], Awaitable[object]]:
    return lambda place: place.observer.execute(statement)


def _pause(rows: int) -> Callable[[Place], Awaitable[object]]:
    async def begin(place: Place) -> None:
        await place.observer.execute("SELECT pgcron.pause_queue('paused')")
        await place.observer.execute(
            "INSERT INTO pgcron.run (handler, queue, args)"
            f" SELECT 'py:noop', 'paused', {stage.PAYLOAD} FROM generate_series(1, {rows}) number"
        )
        await stage.settle(place.observer, "pgcron.run")

    return begin
