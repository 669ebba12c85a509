"""What a run costs that asks for more: an unique key, a weight, labels, limits of time, a breaker,
lines of its log, a thread or a process of its own; against plain runs of the same round.

Processor time of the worker is the node's process alone: what isolated handlers use themselves is
not in it.
"""

from __future__ import annotations

from typing import Final

from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.ways import GOAL_OF_LIMITS, Way, compare, say

_HANDLER: Final = "UPDATE pgcron.run SET handler = 'py:{}'"
_BREAKER: Final = "SELECT pgcron.set_breaker('py:noop', failures => 5)"


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """One node on a database of each way, in turn."""
    result = Result(
        "features",
        "the same node and plain runs, in the same round",
        {"runs": sizes.feature_runs, "rounds": sizes.feature_rounds, "isolated runs": "a tenth"},
    )
    ways = [
        Way("plain"),
        Way("an unique key", change="UPDATE pgcron.run SET unique_key = id::text"),
        Way("a circuit breaker", say(_BREAKER)),
        Way(
            "weight 2",
            change="UPDATE pgcron.run SET weight = 2, concurrency_key = '*weight 2'",
            goal=GOAL_OF_LIMITS,
        ),
        Way(
            "a required label",
            change="UPDATE pgcron.run SET requires = '{gpu=a100}'",
            settings={"NODE_LABELS": "gpu=a100"},
        ),
        Way("three lines of log", change=_HANDLER.format("three_lines")),
        Way("in a thread", change=_HANDLER.format("noop_in_a_thread")),
        Way("in a process of its own", change=_HANDLER.format("noop_apart"), part=0.1),
    ]
    return await compare(result, ground, ways, sizes.feature_runs, sizes.feature_rounds)
