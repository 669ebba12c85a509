"""How fast one node drains no-op runs, beside a bare loop in the same minutes.

``python -m tests.benchmarks.drain [--runs N] [--rounds N] [--json] [--dsn DSN]``

Each round drains the same number of rows twice: with a bare asyncpg loop (`bare_loop`) and with a
real node with default settings: history, fence, lease and log on. A drain lasts from the beginning
of the first claim to the commit of the last completion. fsync and synchronous_commit are on. Only
the ratio within a round says something: a machine that others use changes from minute to minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks.drains import Drain, add_costs, drain_with_bare_loop, drain_with_node, median
from tests.benchmarks.figures import Result, table
from tests.benchmarks.place import Ground, Place, given_place, own_ground
from tests.benchmarks.settings import described
from tests.benchmarks.sizes import Sizes

BASELINE = "a bare loop: claim 500 by UPDATE, await, DELETE; one connection"


@dataclass(frozen=True)
class Round:
    """Both drains of one round, and how busy the machine was."""

    bare: Drain
    node: Drain
    load: float

    @property
    def ratio(self) -> float:
        """The node's rate as a part of the bare loop's."""
        return self.node.rate / self.bare.rate


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """The drain of one node with full history, fence and lease."""
    async with ground.place() as place:
        return await measure(place, sizes.drain_runs, sizes.drain_rounds, lambda line: None)


async def measure(place: Place, runs: int, rounds: int, report: Callable[[str], None]) -> Result:
    """The rounds; every second one begins with the node."""
    result = Result("drain", BASELINE, {"runs": runs, "rounds": rounds})
    measured: list[Round] = []
    for number in range(rounds):
        load = os.getloadavg()[0]
        if number % 2:
            node = await drain_with_node(place, runs)
            bare = await drain_with_bare_loop(place, runs)
        else:
            bare = await drain_with_bare_loop(place, runs)
            node = await drain_with_node(place, runs)
        measured.append(Round(bare, node, load))
        report(_reported(number + 1, measured[-1]))
    _add_figures(result, measured)
    result.details["rounds"] = [asdict(each) for each in measured]
    return result.finished()


def _add_figures(result: Result, rounds: list[Round]) -> None:
    nodes, bares = [each.node for each in rounds], [each.bare for each in rounds]
    ratio = median(each.ratio for each in rounds)
    result.add("rate, median ratio of a round", ratio, "×", None, "≥ 0.60, aim at 0.70")
    rates = median(each.rate for each in nodes), median(each.rate for each in bares)
    result.add("rate", rates[0], "runs/s", rates[1])
    add_costs(result, nodes, bares, "≤ 25, aim at 20")
    memory = max(each.peak_memory for each in nodes) / 1e6
    bare_memory = max(each.peak_memory for each in bares) / 1e6
    result.add("peak memory of the worker", memory, "MB", bare_memory, "≤ 45")


def _reported(number: int, measured: Round) -> str:
    return (
        f"round {number}: bare loop {measured.bare.rate:,.0f}/s, node {measured.node.rate:,.0f}/s,"
        f" ratio {measured.ratio:.2f}; CPU a run: {_reported_cpu('bare', measured.bare)},"
        f" {_reported_cpu('node', measured.node)}; node's memory"
        f" {measured.node.peak_memory / 1e6:.0f} MB; load before {measured.load:.1f}"
    )


def _reported_cpu(name: str, drain: Drain) -> str:
    worker, server = drain.microseconds(drain.worker_cpu), drain.microseconds(drain.server_cpu)
    if worker is None or server is None:
        return f"{name} {worker:.1f} µs, its server's not seen"
    return f"{name} {worker:.1f} + {server:.1f} = {worker + server:.1f} µs"


async def main(arguments: argparse.Namespace) -> None:
    """Measure and print."""

    def report(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    async with _place(arguments.dsn) as place:
        facts: dict[str, Any] = await described(place.observer)
        report(json.dumps(facts, ensure_ascii=False))
        result = await measure(place, arguments.runs, arguments.rounds, report)
    if arguments.json:
        print(json.dumps({**facts, **result.as_json()}, ensure_ascii=False))
        return
    report(table(result))


@asynccontextmanager
async def _place(dsn: str | None) -> AsyncIterator[Place]:
    if dsn is None:
        async with own_ground() as ground, ground.place() as place:
            yield place
    else:
        async with given_place(dsn) as place:
            yield place


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="drain", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50_000, help="runs of one drain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument(
        "--dsn", help="a server of yours; its tables of the schema pgcron are EMPTIED"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(parsed()))
