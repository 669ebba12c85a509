from __future__ import annotations

import asyncio

from tests.db.control import (
    Connect,
    claim,
    enqueue,
    join,
    kill,
    reap,
    run_row,
)
from tests.db.gate import Gate


async def test_a_slow_reaper_leaves_a_run_that_a_living_node_has_claimed_meanwhile(
    gate: Gate, another: Connect
) -> None:
    connection = await another()
    [run_id] = await enqueue(connection)
    dead = await join(connection)
    await claim(connection, dead)
    await kill(connection, dead)
    slow = await gate.visitor()
    async with gate.closed():
        reaping = asyncio.create_task(reap(slow))
        await gate.reached_by(slow)
        assert await reap(connection) == {run_id: "retry"}
        living = await join(connection)
        [claimed] = await claim(connection, living)

    assert await reaping == {}
    row = await run_row(connection, run_id)
    assert row is not None
    assert (row["state"], row["token"]) == ("running", claimed["token"])
