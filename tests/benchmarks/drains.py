"""One drain: the same number of runs taken from a full table, by a node or by the bare loop."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg

from tests.benchmarks import machine, stage
from tests.benchmarks.figures import Result
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Place, difference

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Left:
    """What a drain leaves in the table of runs: rows that nobody sees any more, and its size with
    its indexes.
    """

    dead_rows: int
    size: int


@dataclass(frozen=True)
class Drain:
    """One drain. Processor times are seconds for all runs; None where it can't be seen.

    `first_tenth` and `last_tenth` are rates; None when all of it was one commit.
    """

    runs: int
    seconds: float
    worker_cpu: float
    server_cpu: float | None
    peak_memory: int
    first_tenth: float | None
    last_tenth: float | None
    left: Left | None = None

    @property
    def rate(self) -> float:
        """Runs a second."""
        return self.runs / self.seconds

    @property
    def decay(self) -> float | None:
        """The rate of the last tenth as a part of that of the first."""
        if self.first_tenth is None or self.last_tenth is None:
            return None
        return self.last_tenth / self.first_tenth

    def microseconds(self, cpu: float | None) -> float | None:
        """Of processor time a run."""
        return None if cpu is None else cpu / self.runs * 1e6


async def drain_with_bare_loop(place: Place, runs: int, *, held: bool = False) -> Drain:
    """A new table, drained by a process of its own."""
    await stage.fill_bare_table(place.observer, runs)
    async with AsyncExitStack() as stack:
        if held:
            await stack.enter_async_context(stage.held_horizon(place.dsn))
        server = place.server_cpu()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmarks.bare_loop", place.dsn),
            stdout=asyncio.subprocess.PIPE,
            cwd=_ROOT,
        )
        output, _ = await process.communicate()
        used = difference(server, place.server_cpu())
    said = json.loads(output)
    return _drain(said["ended_at"], said["cpu_seconds"], used, said["peak_memory"])


async def drain_with_node(
    place: Place,
    runs: int,
    *,
    held: bool = False,
    keeps_rows: bool = False,
    concurrency_key: str | None = None,
    queues: Sequence[str] = ("default",),
    change: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Drain:
    """The runs wait behind a pause until the node has joined.

    `held`: a transaction holds the xmin horizon meanwhile. `keeps_rows`: other rows of the tables
    stay; else they are emptied. `concurrency_key`: that of run ``number``, in SQL. The node takes
    from `queues`. `change` makes other runs of them before, `settings` another node.
    """
    await stage.fill_runs(
        place.observer, runs, keeps_rows=keeps_rows, concurrency_key=concurrency_key
    )
    if change is not None:
        await place.observer.execute(change)
        await stage.settle(place.observer, "pgcron.run")
    async with AsyncExitStack() as stack:
        if held:
            await stack.enter_async_context(stage.held_horizon(place.dsn))
        chosen = {"NODE_QUEUES": ",".join(queues), **(settings or {})}
        with NodeProcess(place.dsn, chosen) as node:
            incarnation = await stage.joined(place.observer, node)
            claims = await place.observer.fetchval("SELECT last_value FROM pgcron.fence")
            deleted = (await _of_runs(place))["n_tup_del"]
            worker, server = machine.cpu_seconds(node.pid), place.server_cpu()
            await stage.release_runs(place.observer)
            await stage.until("all are claimed", lambda: _are_claimed(place, claims + runs - 1))
            await stage.until("all have ended", lambda: _have_ended(place, incarnation))
            worker_cpu = machine.cpu_seconds(node.pid) - worker
            server_cpu = difference(server, place.server_cpu())
            memory = machine.peak_memory_bytes(node.pid)
        ended_at = await _ended_at(place, incarnation)
        left = await _left(place, deleted + runs)
    if len(ended_at) != runs:
        raise RuntimeError(f"{len(ended_at)} of {runs} runs succeeded")
    return replace(_drain(ended_at, worker_cpu, server_cpu, memory), left=left)


def add_costs(
    result: Result, nodes: Sequence[Drain], bases: Sequence[Drain], goal: str = "", name: str = ""
) -> None:
    """Processor time a run of worker, server, and both; `name` goes before their names."""
    worker, server = _costs(nodes)
    base_worker, base_server = _costs(bases)
    result.add(f"{name}CPU of the worker", worker, "µs/run", base_worker)
    result.add(f"{name}CPU of the server", server, "µs/run", base_server)
    both = None if worker is None or server is None else worker + server
    base = None if base_worker is None or base_server is None else base_worker + base_server
    result.add(f"{name}CPU of both", both, "µs/run", base, goal)


def median(values: Any) -> float | None:
    """Of those that are known; None when one is not."""
    known = list(values)
    return None if None in known or not known else float(statistics.median(known))


def _costs(drains: Sequence[Drain]) -> tuple[float | None, float | None]:
    return (
        median(each.microseconds(each.worker_cpu) for each in drains),
        median(each.microseconds(each.server_cpu) for each in drains),
    )


async def _are_claimed(place: Place, fence: int) -> bool:
    # One row of a sequence: counting rows while they are drained would be a part of the figure.
    return bool(await place.observer.fetchval("SELECT last_value FROM pgcron.fence") >= fence)


# A sequence runs ahead of the commit of the claim: what it has given out may still look ready.
_UNDER_WAY = """
SELECT EXISTS (SELECT FROM pgcron.run WHERE owner = $1::uuid AND state = 'running')
  OR EXISTS (SELECT FROM pgcron.run WHERE queue = 'default' AND priority = 5 AND state = 'ready'
                   AND concurrency_key IS NULL AND overlap IS NULL
             AND delivery = 'at_least_once' AND due_at <= now())
  OR EXISTS (SELECT FROM pgcron.run WHERE queue = 'default' AND state = 'ready'
             AND concurrency_key IS NOT NULL)
"""


async def _have_ended(place: Place, incarnation: str) -> bool:
    return not await place.observer.fetchval(_UNDER_WAY, incarnation)


async def _of_runs(place: Place) -> asyncpg.Record:
    (row,) = await place.observer.fetch(
        "SELECT n_tup_del, n_dead_tup, pg_total_relation_size(relid) AS size"
        " FROM pg_stat_user_tables WHERE relid = 'pgcron.run'::regclass"
    )
    return row


async def _left(place: Place, deleted: int) -> Left:
    """After the node has gone: its sessions say what they have done when they end."""

    async def are_counted() -> bool:
        return bool((await _of_runs(place))["n_tup_del"] >= deleted)

    await stage.until("the server has counted the rows that were deleted", are_counted)
    found = await _of_runs(place)
    return Left(found["n_dead_tup"], found["size"])


async def _ended_at(place: Place, incarnation: str) -> list[float]:
    """Seconds from the beginning of the first claim to the commit of each end."""
    ended = "finished_at"
    if await place.observer.fetchval("SELECT current_setting('track_commit_timestamp')") == "on":
        ended = "pg_xact_commit_timestamp(xmin)"
    rows = await place.observer.fetch(
        f"SELECT extract(epoch FROM {ended} - min(claimed_at) OVER ())::float8 AS at"
        " FROM pgcron.history WHERE owner = $1::uuid AND outcome = 'succeeded' ORDER BY at",
        incarnation,
    )
    return [row["at"] for row in rows]


def _drain(
    ended_at: list[float], worker_cpu: float, server_cpu: float | None, memory: int
) -> Drain:
    runs, tenth = len(ended_at), len(ended_at) // 10
    last = ended_at[-1] - ended_at[-1 - tenth]
    return Drain(
        runs,
        ended_at[-1],
        worker_cpu,
        server_cpu,
        memory,
        tenth / ended_at[tenth - 1] if tenth else None,
        tenth / last if last > 0 else None,
    )
