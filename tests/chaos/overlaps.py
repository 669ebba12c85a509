"""``python -m tests.chaos.overlaps --policy queue --runs 5000``: overlap policies, under faults.

Eight nodes execute schedules that fire every second with handlers that take random times. Nodes are
killed, and one is cut off from the server now and then. What was executed when is written down by
the handlers, outside the product, and judged afterwards by intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

from tests.chaos.proxy import Proxy
from tests.e2e.evidence import Execution
from tests.e2e.ledger import Connection, unaccounted
from tests.e2e.nodes import Cluster, NodeProcess
from tests.e2e.nursery import Nursery
from tests.product.db import migrate
from tests.servers import ThrowAwayServer, remove_leftovers
from tests.sessions import own_session
from tests.waiting import until

NODES: Final = 8
TTL_SECONDS: Final = 2.0
CUT_SECONDS: Final = 3.0
# A node that was cut off keeps a schedule locked until its session is given up.
DECIDED_SECONDS: Final = TTL_SECONDS + 2 * CUT_SECONDS


@dataclass(frozen=True)
class Policy:
    """Columns of a schedule, and how many of its runs may execute at once."""

    columns: dict[str, Any]
    most: int = 1

    @property
    def replaces(self) -> bool:
        return self.columns["overlap"] in ("replace", "terminate")


POLICIES: Final = {
    "skip": Policy({"overlap": "skip"}),
    "skip3": Policy({"overlap": "skip", "max_running": 3}, 3),
    "queue": Policy({"overlap": "queue", "max_queued": 5}),
    "queue3": Policy(
        {"overlap": "queue", "max_running": 3, "max_queued": 4, "queue_drops": "oldest"}, 3
    ),
    "replace": Policy({"overlap": "replace"}),
    "terminate": Policy({"overlap": "terminate"}),
    "allow3": Policy({"overlap": "allow", "max_running": 3}, 3),
}


@dataclass(frozen=True)
class Plan:
    """What is played: `copies` schedules of each policy until so many `runs` have begun in all."""

    policies: Sequence[str]
    runs: int
    copies: int = 3
    seed: int = 1
    kill_every: float = 4.0
    cut_every: float = 9.0
    longest: float = 2.5


@dataclass
class Findings:
    """What came of one policy; `broken` is empty when it held."""

    fires: int = 0
    executions: int = 0
    most: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


@dataclass
class Played:
    findings: dict[str, Findings]
    kills: int
    cuts: int
    seconds: float


async def play(cluster: Cluster, connection: Connection, proxy: Proxy, plan: Plan) -> Played:
    """To the end of all runs; the judgement is in the answer."""
    began = monotonic()
    far = await connection.fetchval("SELECT current_database()")
    cut_dsn = f"postgresql://postgres:any@127.0.0.1:{proxy.port}/{far}?sslmode=disable"
    chance = random.Random(plan.seed)
    nodes = [_start(cluster, number, cut_dsn if number == 0 else None) for number in range(NODES)]
    for node in nodes:
        await until(f"{node.name} has joined", node.has_joined)
    await _put_schedules(connection, plan)
    held: list[str] = []
    kills = cuts = 0
    next_kill, next_cut = monotonic() + plan.kill_every, monotonic() + plan.cut_every / 2
    async with _cutting(proxy) as cut:
        while cluster.evidence.count("start") < plan.runs:
            held += await _too_many_held(connection)
            if monotonic() >= next_kill:
                which = chance.randrange(1, NODES)
                nodes[which].kill9()
                nodes[which] = _start(cluster, which + NODES * (kills + 1), None)
                kills, next_kill = kills + 1, monotonic() + plan.kill_every
            if monotonic() >= next_cut:
                cut()
                cuts, next_cut = cuts + 1, monotonic() + plan.cut_every
            await asyncio.sleep(0.2)
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")

    async def nothing_lives() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM pgcron.run")

    await until("nothing lives", nothing_lives, deadline=120, pause=0.2)
    findings = await _judge(cluster, connection, plan)
    for policy in held:
        findings[policy].broken.append("more runs waited than max_queued")
    return Played(findings, kills, cuts, monotonic() - began)


def _start(cluster: Cluster, number: int, dsn: str | None) -> NodeProcess:
    return cluster.spawn(
        f"n{number}", dsn=dsn, slots=4, lease_ttl=f"{TTL_SECONDS}s", poll_interval="200ms"
    )


@contextlib.asynccontextmanager
async def _cutting(proxy: Proxy) -> AsyncIterator[Any]:
    """Yields what cuts the first node off for a while; it is healed at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def cut() -> None:
        proxy.cut()
        await asyncio.sleep(CUT_SECONDS)
        proxy.heal()

    def begin() -> None:
        tasks.add(asyncio.create_task(cut()))

    yield begin
    await asyncio.gather(*tasks)


async def _put_schedules(connection: Connection, plan: Plan) -> None:
    for name in plan.policies:
        columns = POLICIES[name].columns
        values = ", ".join(f"${number}" for number in range(4, len(columns) + 4))
        await connection.execute(
            "INSERT INTO pgcron.schedule"
            f" (name, spec, handler, retry, args, {', '.join(columns)})"
            " SELECT $1 || '-' || n, '* * * * * *', 'py:random_work', '{\"base\": 0.1}',"
            f" jsonb_build_object('most', $2::float8, 'fails', 0.03), {values}"
            " FROM generate_series(1, $3::int) n",
            name,
            plan.longest,
            plan.copies,
            *columns.values(),
        )


async def _too_many_held(connection: Connection) -> list[str]:
    """The policies of schedules that keep more due runs waiting than may, and do not end them."""
    rows = await connection.fetch(
        "SELECT s.name FROM pgcron.run r JOIN pgcron.schedule s ON s.id = r.schedule_id"
        " WHERE r.gate = 'overlap' AND s.max_queued IS NOT NULL"
        " AND r.due_at < now() - make_interval(secs => $1)"
        " GROUP BY s.id HAVING count(*) > s.max_queued",
        DECIDED_SECONDS,
    )
    return [row["name"].rpartition("-")[0] for row in rows]


@dataclass(frozen=True)
class _Fire:
    policy: str
    schedule: str
    at: datetime
    outcome: str
    replaced_by: int | None


async def _judge(cluster: Cluster, connection: Connection, plan: Plan) -> dict[str, Findings]:
    rows = await connection.fetch(
        "SELECT h.id, h.schedule, h.scheduled_for, h.outcome,"
        " substring(concat(h.cancel_reason, h.error) FROM '(?:replaced by|^)\\s?run (\\d+)') AS by"
        " FROM pgcron.history h"
    )
    fires = {
        row["id"]: _Fire(
            row["schedule"].rpartition("-")[0],
            row["schedule"],
            row["scheduled_for"],
            row["outcome"],
            None if row["by"] is None else int(row["by"]),
        )
        for row in rows
    }
    findings = {name: Findings() for name in plan.policies}
    for fire in fires.values():
        findings[fire.policy].fires += 1
        findings[fire.policy].outcomes[fire.outcome] += 1
        newer = fire.replaced_by and fires.get(fire.replaced_by)
        if newer and not newer.at > fire.at:
            findings[fire.policy].broken.append(f"{fire} was replaced by an older one")
    keys: dict[str, list[Execution]] = defaultdict(list)
    for execution in cluster.evidence.executions(cluster.deaths()):
        keys[fires[execution.run].schedule].append(execution)
    for executions in keys.values():
        name = fires[executions[0].run].policy
        found, policy = findings[name], POLICIES[name]
        found.executions += len(executions)
        found.most = max(found.most, at_once(executions))
        if at_once(executions) > policy.most:
            found.broken.append(f"{at_once(executions)} at once")
        if policy.replaces or policy.columns["overlap"] == "queue":
            times = [fires[run].at for run in _first_starts(executions)]
            if policy.most == 1 and times != sorted(times):
                found.broken.append("one began after a newer one")
    if await unaccounted(connection):
        findings[plan.policies[0]].broken.append("the ledger has a fire without a run")
    return findings


def at_once(executions: Iterable[Execution]) -> int:
    """How many executed at the same time at most; what never ended goes on for ever."""
    changes = []
    for each in executions:
        changes.append((each.began, 1))
        if each.ended is not None:
            changes.append((each.ended, -1))
    most = current = 0
    for _, change in sorted(changes):  # of one instant the ends count first
        current += change
        most = max(most, current)
    return most


def _first_starts(executions: list[Execution]) -> list[int]:
    ordered = sorted(executions, key=lambda each: each.began)
    return list(dict.fromkeys(each.run for each in ordered))


def table(played: Played) -> str:
    """The findings as lines of a Markdown table."""
    lines = ["| policy | fires | executions | at once | outcomes | broken |", "|" + " --- |" * 6]
    for name, found in played.findings.items():
        outcomes = ", ".join(f"{word} {count}" for word, count in found.outcomes.most_common())
        broken = "; ".join(sorted(set(found.broken))) or "nothing"
        cells = (name, found.fires, found.executions, found.most, outcomes, broken)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines.append(f"\n{played.kills} kills, {played.cuts} partitions, {played.seconds:.0f} s")
    return "\n".join(lines)


async def _command(policy: str, runs: int, seed: int, copies: int) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="pgcron-overlaps-"))
    try:
        with ThrowAwayServer() as server, Nursery("tests.e2e.handlers") as nursery:
            dsn = server.create_database("overlaps")
            await migrate(dsn)
            path = Path(server.folder) / f".s.PGSQL.{server.port}"
            connection = await own_session(dsn)
            async with Proxy(path) as proxy:
                with contextlib.redirect_stdout(sys.stderr), Cluster(dsn, folder) as cluster:
                    cluster.nursery = nursery
                    plan = Plan([policy], runs, copies=copies, seed=seed)
                    played = await play(cluster, connection, proxy, plan)
            await connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(played), flush=True)
    return not any(found.broken for found in played.findings.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.overlaps", description=__doc__)
    parser.add_argument("--policy", default=",".join(POLICIES), help="one or several, with commas")
    parser.add_argument("--runs", type=int, default=5000, help="so many begin, of each policy")
    parser.add_argument("--copies", type=int, default=30, help="schedules of each policy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    remove_leftovers()
    policies = options.policy.split(",")
    held = [
        asyncio.run(_command(name, options.runs, options.seed, options.copies)) for name in policies
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
