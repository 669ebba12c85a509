"""What delivery `transactional` costs a run, beside the same effect in a transaction of its own."""

from __future__ import annotations

from typing import Final

from tests.benchmarks.drains import Drain, drain_with_node, median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes

BASELINE: Final = "at_least_once; the handler makes the same UPDATE in a transaction of its own"
SLOTS: Final = 16

_TABLE = """
    DROP TABLE IF EXISTS public.paid;
    CREATE TABLE public.paid (id int PRIMARY KEY, times int NOT NULL DEFAULT 0);
    INSERT INTO public.paid SELECT n FROM generate_series(0, 9999) n;
"""
_APART = "UPDATE pgcron.run SET handler = 'py:pay_apart'"
_TOGETHER = "UPDATE pgcron.run SET handler = 'py:pay_together', delivery = 'transactional'"


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """Both ways by turns; and every run has had its effect once."""
    runs = sizes.delivery_runs
    result = Result("delivery", BASELINE, {"runs": runs, "rounds": sizes.delivery_rounds})
    apart: list[Drain] = []
    together: list[Drain] = []
    async with ground.place() as place:
        for number in range(sizes.delivery_rounds):
            ways = [(_APART, apart), (_TOGETHER, together)]
            for change, drains in ways if number % 2 else reversed(ways):
                drains.append(await _drain(place, runs, change))
    rates = [median(each.rate for each in drains) for drains in (together, apart)]
    result.add("rate", rates[0], "runs/s", rates[1])
    for name in ("worker_cpu", "server_cpu"):
        value, base = (
            median(each.microseconds(getattr(each, name)) for each in drains)
            for drains in (together, apart)
        )
        result.add(f"CPU of the {name.removesuffix('_cpu')}", value, "µs/run", base)
    return result.finished()


async def _drain(place: Place, runs: int, change: str) -> Drain:
    await place.observer.execute(_TABLE)
    settings = {"NODE_TRANSACTIONS": str(SLOTS), "NODE_SLOTS": str(SLOTS)}
    drain = await drain_with_node(place, runs, change=change, settings=settings)
    paid = await place.observer.fetchval("SELECT sum(times) FROM public.paid")
    if paid != runs:
        raise RuntimeError(f"{runs} runs had {paid} effects")
    return drain
