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
import platform
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import asyncpg

from pgcron_ha.config import load_settings, read_sources
from pgcron_ha.db.schema import migrate
from tests.benchmarks import machine, stage
from tests.benchmarks.bare_loop import BATCH
from tests.benchmarks.node_process import NodeProcess
from tests.servers import ThrowAwayServer, remove_leftovers


@dataclass(frozen=True)
class Drain:
    """One drain. Processor times are seconds for all runs; None where it can't be seen."""

    runs: int
    seconds: float
    worker_cpu: float
    server_cpu: float | None
    peak_memory: int | None = None

    @property
    def rate(self) -> float:
        """Runs a second."""
        return self.runs / self.seconds

    def microseconds(self, cpu: float | None) -> float | None:
        """Of processor time a run."""
        return None if cpu is None else cpu / self.runs * 1e6


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


@dataclass(frozen=True)
class Place:
    """Where the benchmark runs; the postmaster is None for a server that is not ours."""

    dsn: str
    observer: asyncpg.Connection
    postmaster: int | None

    def server_cpu(self) -> float | None:
        """Seconds the server has used so far, the observer's aside."""
        if self.postmaster is None:
            return None
        return machine.server_cpu_seconds(self.postmaster, self.observer.get_server_pid())


async def drain_with_bare_loop(place: Place, runs: int) -> Drain:
    """A new table, drained by a process of its own."""
    await stage.fill_bare_table(place.observer, runs)
    server = place.server_cpu()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmarks.bare_loop", place.dsn),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    used = _difference(server, place.server_cpu())
    said = json.loads(output)
    return Drain(said["runs"], said["seconds"], said["cpu_seconds"], used)


async def drain_with_node(place: Place, runs: int) -> Drain:
    """The runs wait behind a pause until the node has joined."""
    await stage.fill_runs(place.observer, runs)
    with NodeProcess(place.dsn) as node:
        await stage.until("the node has joined", lambda: _has_joined(place, node))
        claims = await place.observer.fetchval("SELECT last_value FROM pgcron.fence")
        worker, server = machine.cpu_seconds(node.pid), place.server_cpu()
        await stage.release_runs(place.observer)
        await stage.until("all are claimed", lambda: _are_claimed(place, claims + runs - 1))
        await stage.until("all have ended", lambda: _have_ended(place, runs))
        worker_cpu = machine.cpu_seconds(node.pid) - worker
        server_cpu = _difference(server, place.server_cpu())
        memory = machine.peak_memory_bytes(node.pid)
        seconds = await _seconds_in_history(place)
    return Drain(runs, seconds, worker_cpu, server_cpu, memory)


async def _has_joined(place: Place, node: NodeProcess) -> bool:
    node.check()
    return bool(
        await place.observer.fetchval(
            "SELECT count(*) FROM pgcron.node WHERE process_id = $1 AND state = 'alive'"
            " AND incarnation IN (SELECT incarnation FROM pgcron.offer)",
            node.pid,
        )
    )


async def _are_claimed(place: Place, fence: int) -> bool:
    # One row of a sequence: counting rows while they are drained would be a part of the figure.
    return bool(await place.observer.fetchval("SELECT last_value FROM pgcron.fence") >= fence)


async def _have_ended(place: Place, runs: int) -> bool:
    return bool(
        await place.observer.fetchval(
            "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
        )
        >= runs
    )


async def _seconds_in_history(place: Place) -> float:
    ended = "finished_at"
    if await place.observer.fetchval("SELECT current_setting('track_commit_timestamp')") == "on":
        ended = "pg_xact_commit_timestamp(xmin)"
    seconds: float = await place.observer.fetchval(
        f"SELECT extract(epoch FROM max({ended}) - min(claimed_at))::float8 FROM pgcron.history"
    )
    return seconds


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


@asynccontextmanager
async def own_server() -> AsyncIterator[tuple[str, int]]:
    """A durable server on a real disk: its DSN over TCP, and its postmaster."""
    remove_leftovers()
    settings = {"shared_buffers": "1GB", "track_commit_timestamp": "on"}
    with ThrowAwayServer(durable=True, tcp=True, settings=settings) as server:
        server.create_database("benchmark")
        yield server.tcp_dsn("benchmark"), server.pid


async def measure(place: Place, runs: int, rounds: int, tell: Any) -> list[Round]:
    """The rounds; every second one begins with the node."""
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
        tell(_told(number + 1, measured[-1]))
    return measured


def _told(number: int, measured: Round) -> str:
    memory = (measured.node.peak_memory or 0) / 1e6
    return (
        f"round {number}: bare loop {measured.bare.rate:,.0f}/s, node {measured.node.rate:,.0f}/s,"
        f" ratio {measured.ratio:.2f}; CPU a run: {_told_cpu('bare', measured.bare)},"
        f" {_told_cpu('node', measured.node)}; node's memory {memory:.0f} MB;"
        f" load before {measured.load:.1f}"
    )


def _told_cpu(name: str, drain: Drain) -> str:
    worker, server = drain.microseconds(drain.worker_cpu), drain.microseconds(drain.server_cpu)
    if worker is None or server is None:
        return f"{name} {worker:.1f} µs, its server's not seen"
    return f"{name} {worker:.1f} + {server:.1f} = {worker + server:.1f} µs"


async def described(observer: asyncpg.Connection, runs: int) -> dict[str, Any]:
    """Machine, versions and settings."""
    node = load_settings(read_sources(environment={})).node
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
    server = {name: await observer.fetchval("SELECT current_setting($1)", name) for name in names}
    return {
        "machine": machine.described(),
        "python": platform.python_version(),
        "asyncpg": metadata.version("asyncpg"),
        "uvloop": metadata.version("uvloop"),
        "server": server,
        "runs": runs,
        "bare loop": {"batch": BATCH, "connections": 2},
        "node": {"slots": node.slots, "prefetch": node.prefetch, "lease_ttl": node.lease_ttl},
    }


def summary(rounds: list[Round]) -> dict[str, Any]:
    """The medians."""
    found: dict[str, Any] = {
        "ratio": statistics.median(each.ratio for each in rounds),
        "bare loop runs/s": statistics.median(each.bare.rate for each in rounds),
        "node runs/s": statistics.median(each.node.rate for each in rounds),
        "node peak memory MB": max(each.node.peak_memory or 0 for each in rounds) / 1e6,
    }
    for name in ("bare", "node"):
        drains: list[Drain] = [getattr(each, name) for each in rounds]
        worker = [drain.microseconds(drain.worker_cpu) or 0.0 for drain in drains]
        server = [drain.microseconds(drain.server_cpu) for drain in drains]
        found[f"{name} worker CPU µs/run"] = statistics.median(worker)
        if None not in server:
            found[f"{name} server CPU µs/run"] = statistics.median(each or 0.0 for each in server)
    return found


async def main(arguments: argparse.Namespace) -> None:
    """Measure and print."""

    def tell(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    async with _place(arguments.dsn) as place:
        facts = await described(place.observer, arguments.runs)
        tell(json.dumps(facts, ensure_ascii=False))
        rounds = await measure(place, arguments.runs, arguments.rounds, tell)
    medians = summary(rounds)
    if arguments.json:
        document = {**facts, "rounds": [asdict(each) for each in rounds], "median": medians}
        print(json.dumps(document, ensure_ascii=False))
        return
    tell("median of the rounds: " + ", ".join(f"{k} {v:,.2f}" for k, v in medians.items()))


@asynccontextmanager
async def _place(dsn: str | None) -> AsyncIterator[Place]:
    if dsn is None:
        async with own_server() as (own, postmaster), _prepared(own, postmaster) as place:
            yield place
    else:
        async with _prepared(dsn, None) as place:
            yield place


@asynccontextmanager
async def _prepared(dsn: str, postmaster: int | None) -> AsyncIterator[Place]:
    await migrate(dsn)
    observer = await asyncpg.connect(dsn)
    try:
        yield Place(dsn, observer, postmaster)
    finally:
        await observer.close()


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
