"""What an edit costs a schedule that has a thousand runs ahead, and how long until they are there
again.

The baseline is the same edit of a schedule without a run. Edits of both alternate.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.product.db import Link
from tests.product.engine import Materializer

_BUSY, _BARE = "busy", "bare"

_EDITS: Final = {
    "args": "args = jsonb_build_object('edit', $2::int)",
    "spec": "spec = CASE WHEN $2::int % 2 = 0 THEN '* * * * * *' ELSE 'every 1s' END",
    "pause": "enabled = false, paused_note = 'edit ' || $2::int",
}
_RESUME: Final = "UPDATE pgcron.schedule SET enabled = true WHERE NOT enabled"
_AHEAD: Final = "SELECT count(*) FROM pgcron.run WHERE schedule = $1"


@dataclass
class Times:
    """Milliseconds of each edit: of the busy schedule, of the bare one, until the busy one's runs
    are there again; and how many those were.
    """

    busy: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """One fire a second, as far ahead as there shall be runs."""
    ahead, rounds = sizes.edit_runs, sizes.edit_rounds
    result = Result(
        "edit", "the same edit of a schedule without a run", {"runs ahead": ahead, "edits": rounds}
    )
    async with ground.place() as place:
        await place.observer.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler, overlap) VALUES"
            " ($1, '* * * * * *', 'py:stamp', 'allow'), ($2, '0 0 1 1 *', 'py:stamp', 'allow')",
            *(_BUSY, _BARE),
        )
        link = Link(place.dsn)
        try:
            materializer = Materializer(link, float(ahead))
            for name, change in _EDITS.items():
                times = await _edit(place, materializer, change, rounds)
                _add(result, name, times)
        finally:
            await link.close()
    return result.finished()


async def _edit(place: Place, materializer: Materializer, change: str, rounds: int) -> Times:
    times = Times()
    for number in range(1, rounds + 1):
        await _materialize(materializer)
        await stage.settle(place.observer, "pgcron.run, pgcron.occurrence, pgcron.cursor")
        times.runs.append(await place.observer.fetchval(_AHEAD, _BUSY))
        for name, kept in ((_BUSY, times.busy), (_BARE, times.bare)):
            began = time.perf_counter()
            await place.observer.execute(
                f"UPDATE pgcron.schedule SET {change} WHERE name = $1", name, number
            )
            kept.append((time.perf_counter() - began) * 1000)
        await place.observer.execute(_RESUME)
        began = time.perf_counter()
        await _materialize(materializer)
        times.again.append((time.perf_counter() - began) * 1000)
    return times


async def _materialize(materializer: Materializer) -> None:
    while await materializer.run_once() == 0:
        pass


def _add(result: Result, name: str, times: Times) -> None:
    for word, part in (("p50", 0.5), ("worst", 1.0)):
        busy, bare = percentile(times.busy, part), percentile(times.bare, part)
        result.add(f"{name}: {word}", busy, "ms", bare)
    result.add(f"{name}: until decided again, p50", percentile(times.again, 0.5), "ms")
    result.add(f"{name}: runs ahead before the edit, least", min(times.runs), "runs")
