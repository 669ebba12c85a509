"""What a limit costs: the same runs with keys, in a limited queue, and beside a paused queue full
of due runs, against plain runs of the same round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.ways import GOAL_OF_LIMITS, Way, compare, say

HOT_KEYS: Final = 1000
_MANY: Final = 100_000


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """One node on a database of each way, in turn."""
    result = Result(
        "limits",
        "the same node and plain runs, in the same round",
        {
            "runs": sizes.limit_runs,
            "rounds": sizes.limit_rounds,
            "hot concurrency keys": HOT_KEYS,
            "due runs of the paused queue": sizes.limit_paused_rows,
        },
    )
    ways = [
        Way("plain"),
        Way(
            "1,000 concurrency keys of one slot",
            concurrency_key=f"'key ' || number % {HOT_KEYS}",
            goal=GOAL_OF_LIMITS,
        ),
        Way(
            "a concurrency key without a limit",
            say("SELECT pgcron.set_concurrency('*', NULL)"),
            concurrency_key="'tenant'",
            goal=GOAL_OF_LIMITS,
        ),
        Way(
            "a concurrency key with a rate",
            say("SELECT pgcron.set_concurrency('*', NULL, rate => 1000000, per => '1 second')"),
            concurrency_key="'tenant'",
            goal=GOAL_OF_LIMITS,
        ),
        Way(
            "a limited queue",
            say(f"SELECT pgcron.set_queue('default', {_MANY})"),
            goal=GOAL_OF_LIMITS,
        ),
        Way("beside a paused queue", _pause(sizes.limit_paused_rows), queues=("default", "paused")),
    ]
    return await compare(result, ground, ways, sizes.limit_runs, sizes.limit_rounds)


def _pause(rows: int) -> Callable[[Place], Awaitable[object]]:
    async def begin(place: Place) -> None:
        await place.observer.execute("SELECT pgcron.pause_queue('paused')")
        await place.observer.execute(
            "INSERT INTO pgcron.run (handler, queue, args)"
            f" SELECT 'py:noop', 'paused', {stage.PAYLOAD} FROM generate_series(1, {rows}) number"
        )
        await stage.settle(place.observer, "pgcron.run")

    return begin
