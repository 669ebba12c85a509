"""Draining beside rows that are not due yet and rows that ended long ago, against clean tables."""

from __future__ import annotations

from dataclasses import asdict

from tests.benchmarks import stage
from tests.benchmarks.drains import Drain, add_costs, drain_with_node, median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes

_FINISHED = """
INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, outcome,
  attempt, due_at, created_at, created_by, claimed_at, started_at, owner, node, fence)
SELECT nextval(pg_get_serial_sequence('pgcron.run', 'id')), gen_random_uuid(), 'enqueued',
  'default', 5, 'py:noop', {payload}, 'at_least_once', 'succeeded', 1, now(), now(), 'benchmark',
  now(), now(), '00000000-0000-0000-0000-000000000000', 'earlier', 0
FROM generate_series(1, {rows}) number
"""


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """The same node on two databases of one server, in turn."""
    result = Result(
        "backlog",
        "the same node on clean tables",
        {
            "runs": sizes.backlog_runs,
            "future rows": sizes.backlog_rows,
            "finished rows": sizes.backlog_rows,
            "rounds": sizes.backlog_rounds,
        },
    )
    full: list[Drain] = []
    clean: list[Drain] = []
    async with ground.place() as full_place, ground.place() as clean_place:
        await _fill(full_place, sizes.backlog_rows)
        for number in range(sizes.backlog_rounds):
            turns = [(clean_place, clean), (full_place, full)]
            for place, drains in turns if number % 2 else reversed(turns):
                drains.append(await drain_with_node(place, sizes.backlog_runs, keeps_rows=True))
    ratio = median(f.rate / c.rate for f, c in zip(full, clean, strict=True))
    result.add("rate, median ratio of a round", ratio, "×", None, "≥ 0.95")
    rates = median(each.rate for each in full), median(each.rate for each in clean)
    result.add("rate", rates[0], "runs/s", rates[1])
    add_costs(result, full, clean)
    result.details["full"] = [asdict(each) for each in full]
    result.details["clean"] = [asdict(each) for each in clean]
    return result.finished()


async def _fill(place: Place, rows: int) -> None:
    await place.observer.execute(
        "INSERT INTO pgcron.run (handler, args, due_at)"
        f" SELECT 'py:noop', {stage.PAYLOAD}, now() + interval '1 day'"
        f" FROM generate_series(1, {rows}) number"
    )
    await place.observer.execute(_FINISHED.format(payload=stage.PAYLOAD, rows=rows))
    await stage.settle(place.observer, "pgcron.history")
