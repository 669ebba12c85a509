"""Transfers between accounts while nodes are killed: what each kind of delivery promises.

The judge counts rows that nothing keeps unique, and evidence outside the database.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from pgcron_ha import App, Context
from pgcron_ha.operating_system import boottime
from tests.e2e import evidence
from tests.e2e.ledger import Connection, enqueue
from tests.e2e.nodes import Cluster, NodeProcess
from tests.e2e.nursery import Nursery
from tests.sessions import own_session
from tests.waiting import until

APP: Final = "tests.e2e.transfers:app"
ACCOUNTS: Final = 20
BALANCE: Final = 1000
EFFECT_SECONDS: Final = 0.05  # so that some are killed in the middle of it
NODES: Final = ("a", "b", "c", "d", "e")  # enough that one is at work while others begin

app = App()

_MOVE = "UPDATE public.account SET balance = balance + $2 WHERE id = $1"
_NOTE = "INSERT INTO public.transfer (run, attempt, amount) VALUES ($1, $2, $3)"
_TABLES = f"""
    CREATE TABLE public.account (id int PRIMARY KEY, balance int NOT NULL);
    INSERT INTO public.account SELECT n, {BALANCE} FROM generate_series(1, {ACCOUNTS}) n;
    CREATE TABLE public.transfer (run bigint, attempt int, amount int);
"""


@app.handler("transfer")
async def transfer(
    context: Context, source: int, target: int, amount: int, isolation: Any = "read_committed"
) -> dict[str, int]:
    async with context.connection(isolation) as own:
        for account, change in sorted(((source, -amount), (target, amount))):
            await own.execute(_MOVE, account, change)
    async with context.connection(isolation) as own:
        await own.execute(_NOTE, context.run_id, context.attempt, amount)
    return {"amount": amount}


@app.handler("plain_transfer")
def plain_transfer(context: Context, source: int, target: int, amount: int) -> None:
    with context.connection() as own:
        for account, change in sorted(((source, -amount), (target, amount))):
            own.execute(_MOVE, account, change)
        own.execute(_NOTE, context.run_id, context.attempt, amount)


@app.handler("effect")
async def effect(context: Context) -> None:
    with evidence.executing(context):
        print("an effect outside")
        await asyncio.sleep(EFFECT_SECONDS)


@dataclass(frozen=True)
class Report:
    """What was asked for, what happened, and what of it must not be."""

    transfers: int
    others: int
    kills: int
    seconds: float
    outcomes: Counter[tuple[str, str]]
    executed_again: int
    broken: list[str]

    def lines(self) -> list[str]:
        return [
            f"{self.transfers} transfers, {self.others} runs each of the other two deliveries, "
            f"{self.kills} nodes killed in {self.seconds:.1f} s",
            *(f"{d} {outcome}: {n}" for (d, outcome), n in sorted(self.outcomes.items())),
            f"transfers that took more than one attempt: {self.executed_again}",
            *(self.broken or ["sum exact, each transfer applied once, promises kept"]),
        ]


async def play(
    cluster: Cluster,
    connection: Connection,
    count: int,
    *,
    seconds: float,
    pause: float = 1.0,
    most_kills: int | None = None,
    seed: int = 1,
) -> Report:
    """So many transfers fall due within `seconds`; a node is killed each `pause` and begins again
    under its name, until everything has ended, or `most_kills` times.
    """
    chance = random.Random(seed)
    await connection.execute(_TABLES)
    with Nursery(__name__) as cluster.nursery:
        return await _play(cluster, connection, chance, count, seconds, pause, most_kills)


async def _play(
    cluster: Cluster,
    connection: Connection,
    chance: random.Random,
    count: int,
    seconds: float,
    pause: float,
    most_kills: int | None,
) -> Report:
    nodes = {name: cluster.start(name, app=APP) for name in NODES}
    began = boottime()
    others = count // 10
    asking = asyncio.create_task(_ask_for_all(cluster.dsn, chance, count, others, seconds))
    kills = turns = 0
    while not (asking.done() and await _is_over(connection)):
        turns += 1
        await until("the next kill", partial(_is_past, began + pause * turns), deadline=pause + 60)
        if most_kills is None or kills < most_kills:
            victim = await until("one is at work", partial(_at_work, nodes, chance), deadline=60)
            assert victim is not None
            victim.kill9()
            nodes[victim.name] = cluster.spawn(victim.name, app=APP)
            kills += 1
        assert boottime() < began + 20 * seconds + 120, "it does not end"
    await asking
    return await _judge(cluster, connection, count, others, kills, boottime() - began)


async def _ask_for_all(
    dsn: str, chance: random.Random, count: int, others: int, seconds: float
) -> None:
    connection = await own_session(dsn)
    try:
        await _enqueue(connection, chance, count, seconds)
        for delivery in ("at_least_once", "at_most_once"):
            for number in range(others):
                ahead = timedelta(seconds=seconds * number / others)
                await _ask(connection, "py:effect", ahead, {}, delivery=delivery)
    finally:
        await connection.close()


async def _ask(
    connection: Connection, handler: str, ahead: timedelta, args: Any, **columns: Any
) -> None:
    if columns["delivery"] != "at_most_once":  # kills and conflicts alone must not end it
        columns |= {"max_attempts": 100}
    policy = {"retry": '{"base": 0.05, "cap": 1}'}
    await enqueue(
        connection, handler, args=args, due_at=datetime.now(UTC) + ahead, **policy, **columns
    )


async def _enqueue(
    connection: Connection, chance: random.Random, count: int, seconds: float
) -> None:
    for number in range(count):
        source, target = chance.sample(range(1, ACCOUNTS + 1), 2)
        args: dict[str, Any] = {"source": source, "target": target, "amount": chance.randint(1, 50)}
        handler = "py:plain_transfer"
        if number % 2:
            handler = "py:transfer"
            if number % 20 == 1:
                args["isolation"] = chance.choice(["repeatable_read", "serializable"])
        ahead = timedelta(seconds=seconds * number / count)
        await _ask(connection, handler, ahead, args, delivery="transactional")


def _at_work(nodes: dict[str, NodeProcess], chance: random.Random) -> NodeProcess | None:
    """One of those that have joined; the others are about to."""
    joined = [node for node in nodes.values() if node.has_joined()]
    return chance.choice(joined) if joined else None


def _is_past(instant: float) -> bool:
    return boottime() >= instant


async def _is_over(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT EXISTS (SELECT FROM pgcron.run)")


async def _judge(
    cluster: Cluster, connection: Connection, count: int, others: int, kills: int, seconds: float
) -> Report:
    broken: list[str] = []
    history = await connection.fetch("SELECT id, delivery, outcome, attempt FROM pgcron.history")
    total = await connection.fetchval("SELECT sum(balance) FROM public.account")
    if total != ACCOUNTS * BALANCE:
        broken.append(f"the sum is {total}")
    applied = Counter(row["run"] for row in await connection.fetch("TABLE public.transfer"))
    starts = Counter(event.run for event in cluster.evidence.events("start"))
    ends = Counter(event.run for event in cluster.evidence.events("end"))
    for run, delivery, outcome, _ in history:
        is_success = outcome == "succeeded"
        if delivery == "transactional" and (applied[run] != 1 or not is_success):
            broken.append(f"transfer {run} ended {outcome} and was applied {applied[run]} times")
        if delivery == "at_most_once" and starts[run] > 1:
            broken.append(f"at most once {run} began {starts[run]} times")
        if delivery == "at_least_once" and (ends[run] < 1 or not is_success):
            broken.append(f"at least once {run} ended {outcome} after {ends[run]} executions")
    if len(history) != count + 2 * others:
        broken.append(f"{len(history)} runs ended, not {count + 2 * others}")
    return Report(
        count,
        others,
        kills,
        seconds,
        Counter((row["delivery"], row["outcome"]) for row in history),
        sum(1 for row in history if row["delivery"] == "transactional" and row["attempt"] > 1),
        broken,
    )
