"""A long drain while a transaction holds the xmin horizon: dead rows and index entries stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tests.benchmarks.drains import Drain, add_costs, drain_with_bare_loop, drain_with_node, median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground
from tests.benchmarks.sizes import Sizes


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """The node held and not held, and the bare loop held, in each round."""
    runs = sizes.held_runs
    result = Result(
        "held_horizon",
        "the same node without the transaction",
        {"runs": runs, "rounds": sizes.held_rounds},
    )
    held: list[Drain] = []
    free: list[Drain] = []
    bare: list[Drain] = []
    async with ground.place() as place:
        for _ in range(sizes.held_rounds):
            free.append(await drain_with_node(place, runs))
            held.append(await drain_with_node(place, runs, held=True))
            bare.append(await drain_with_bare_loop(place, runs, held=True))
    decay = median(each.decay for each in held), median(each.decay for each in free)
    result.add("last tenth ÷ first tenth", decay[0], "×", decay[1], "≥ 0.8, aim at 0.95")
    result.add("the same of the bare loop, held", median(each.decay for each in bare), "×")
    for name in ("first_tenth", "last_tenth", "rate"):
        result.add(name.replace("_", " "), _median(held, name), "runs/s", _median(free, name))
    left = [median(e.left and e.left.dead_rows for e in drains) for drains in (held, free)]
    result.add("dead rows that stay in the table of runs", left[0], "rows", left[1])
    sizes_left = [median(e.left and e.left.size / 1e6 for e in drains) for drains in (held, free)]
    result.add("the table of runs with its indexes", sizes_left[0], "MB", sizes_left[1])
    add_costs(result, held, free)
    for name, drains in (("held", held), ("free", free), ("bare", bare)):
        result.details[name] = [asdict(each) for each in drains]
    return result.finished()


def _median(drains: Sequence[Drain], name: str) -> float | None:
    return median(getattr(each, name) for each in drains)
