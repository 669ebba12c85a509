"""Drains of several kinds of runs in turn, each on a database of its own, beside plain runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Final

from tests.benchmarks.drains import Drain, add_costs, drain_with_node, median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place

GOAL_OF_LIMITS: Final = "≤ 2 ×"
"""What a run with a key, a weight or a limited queue may cost beside a plain one."""


async def nothing(place: Place) -> None:
    """What a way begins with that needs nothing."""


def say(statement: str) -> Callable[[Place], Awaitable[object]]:
    """A way begins with this statement."""
    return lambda place: place.observer.execute(statement)


@dataclass
class Way:
    """One kind of runs: `begin` sets its database up, `concurrency_key` is the key of run
    ``number`` in SQL, `change` a statement that makes them what they are, `settings` those of the
    node. There are `part` of the runs that plain ones have. `goal` is that of the CPU of both.
    """

    name: str
    begin: Callable[[Place], Awaitable[object]] = nothing
    concurrency_key: str | None = None
    queues: tuple[str, ...] = ("default",)
    change: str | None = None
    settings: Mapping[str, str] | None = None
    part: float = 1.0
    goal: str = ""
    place: Place | None = None
    drains: list[Drain] = field(default_factory=list)


async def compare(
    result: Result, ground: Ground, ways: Sequence[Way], runs: int, rounds: int
) -> Result:
    """One node drains `runs` of each way in each round; the first way is what others are beside."""
    async with AsyncExitStack() as stack:
        for way in ways:
            way.place = await stack.enter_async_context(ground.place())
            await way.begin(way.place)
        for number in range(rounds):
            first = number % len(ways)
            for way in (*ways[first:], *ways[:first]):
                assert way.place is not None
                drain = await drain_with_node(
                    way.place,
                    max(round(runs * way.part), 1),
                    keeps_rows=True,
                    concurrency_key=way.concurrency_key,
                    queues=way.queues,
                    change=way.change,
                    settings=way.settings,
                )
                way.drains.append(drain)
    plain = ways[0].drains
    for way in ways[1:]:
        rate = median(each.rate for each in way.drains)
        result.add(f"{way.name}: rate", rate, "runs/s", median(each.rate for each in plain))
        add_costs(result, way.drains, plain, way.goal, name=f"{way.name}: ")
    result.details = {way.name: [asdict(each) for each in way.drains] for way in ways}
    return result.finished()
