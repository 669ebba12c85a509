"""Everything that nodes and people do, all at once, on few rows: nobody may wait for each other."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg

from tests.db.control import (
    Connect,
    Connection,
    Node,
    call,
    claim,
    claim_both,
    claim_overlapping,
    cursor_of,
    database_now,
    enqueue,
    fail,
    finish,
    join,
    kill,
    materialize,
    put_schedule,
    reap,
    release,
)
from tests.product.db import broken_rows

SECONDS = 4.0
# A busy machine gets to everything later.
MOST_SECONDS = 40.0
KEYS = 4
WANTED = {"succeeded", "cancelled", "skipped", "dead"}

Act = Callable[[Connection, Node, random.Random], Awaitable[object]]


async def plan(own: Connection, node: Node, chance: random.Random) -> None:
    schedule = await own.fetchval("SELECT id FROM pgcron.schedule ORDER BY random() LIMIT 1")
    try:
        cursor = await cursor_of(own, schedule)
    except AssertionError:  # deleted meanwhile
        return
    now = await database_now(own)
    fires = [now + timedelta(milliseconds=50 * n) for n in range(-2, 5)]
    await materialize(own, cursor, [fire for fire in fires if fire > cursor["watermark"]])


async def work(own: Connection, node: Node, chance: random.Random) -> None:
    runs = await claim_both(own, node, 5)
    runs += (await claim_overlapping(own, node, 3))[0]
    chance.shuffle(runs)
    third = len(runs) // 3
    await call(
        own,
        "mark_started",
        run_ids=[run["id"] for run in runs],
        tokens=[run["token"] for run in runs],
        elapsed_seconds=[0.1 for _ in runs],
    )
    await finish(own, runs[:third])
    await fail(own, runs[third : 2 * third], retry_after=0.0)
    await release(own, runs[2 * third :])


async def claim_and_die(own: Connection, node: Node, chance: random.Random) -> None:
    victim = await join(own)
    await claim(own, victim, 8)
    await claim_overlapping(own, victim, 3)
    await kill(own, victim)


async def tidy(own: Connection, node: Node, chance: random.Random) -> None:
    await reap(own, 10)
    expired = await call(own, "expired_runs", at_most=10)
    ids = [row["id"] for row in expired]
    await call(own, "expire_runs", run_ids=ids, reason="late")
    await call(own, "block_unserved", queues=["default"], look=10)
    await call(own, "unblock", at_most=10)
    await own.execute("SELECT pgcron.ensure_partitions()")


async def edit(own: Connection, node: Node, chance: random.Random) -> None:
    name = f"job {chance.randrange(KEYS)}"
    verb = chance.randrange(6)
    if verb == 0:
        await own.execute("DELETE FROM pgcron.schedule WHERE name = $1", name)
        await own.execute("SELECT pgcron.put_schedule($1, '* * * * *', 'py:work')", name)
    elif verb == 1:
        # One at a time: two updates of all rows, in no order, may deadlock in any application.
        await own.execute("UPDATE pgcron.schedule SET enabled = NOT enabled WHERE name = $1", name)
    else:
        await own.execute(
            "UPDATE pgcron.schedule SET priority = 4 + $2 % 3 WHERE name = $1", name, verb
        )


async def ask(own: Connection, node: Node, chance: random.Random) -> None:
    keys = await own.fetch("SELECT id FROM pgcron.schedule ORDER BY random() LIMIT 1")
    for row in keys:
        await enqueue(own, 3, origin="manual", schedule_id=row["id"], overlap="skip")
    await enqueue(own, 5)
    await enqueue(own, 2, delivery="at_most_once")
    await enqueue(own, 1, handler="py:rare")
    await own.execute(
        "SELECT pgcron.enqueue('py:work', idempotency_key => $1)", str(chance.randrange(5))
    )
    run = await own.fetchval("SELECT id FROM pgcron.run ORDER BY random() LIMIT 1")
    try:
        await own.execute("SELECT pgcron.cancel_run($1)", run)
    except asyncpg.PostgresError as error:
        if error.sqlstate != "PC010":  # its schedule was edited meanwhile, and it with it
            raise


ACTS: list[Act] = [plan, plan, work, work, claim_and_die, tidy, tidy, edit, edit, ask, ask]


async def outcomes(own: Connection) -> set[str]:
    rows = await own.fetch("SELECT DISTINCT outcome FROM pgcron.history")
    return {row["outcome"] for row in rows}


async def test_control_statements_never_deadlock_nor_hit_a_net(
    connection: Connection, another: Connect
) -> None:
    for number in range(KEYS):
        await put_schedule(connection, f"job {number}", overlap=("skip", "allow")[number % 2])
    acted = [0] * len(ACTS)
    sessions = [await another() for _ in ACTS]
    began = time.monotonic()

    async def actor(number: int, own: Connection) -> None:
        chance = random.Random(number)
        node = await join(own)
        while (taken := time.monotonic() - began) < MOST_SECONDS:
            if taken > SECONDS and min(acted) > 0 and await outcomes(own) >= WANTED:
                return
            await ACTS[number](own, node, chance)
            acted[number] += 1

    await asyncio.gather(*[actor(number, own) for number, own in enumerate(sessions)])

    if connection.get_server_version().major >= 15:  # before, they were told at once
        await connection.execute("SELECT pg_stat_force_next_flush()")
    deadlocks = await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks == 0
    assert min(acted) > 0
    assert await broken_rows(connection) == []
    assert await outcomes(connection) >= WANTED
