"""Nodes that do not offer the same handlers."""

from __future__ import annotations

import asyncio
from functools import partial

from tests.e2e.ledger import Connection, ended, enqueue, live_run
from tests.e2e.nodes import MORE_HANDLERS, Cluster
from tests.waiting import until


async def test_a_run_is_executed_by_a_node_that_offers_its_handler(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("old")
    cluster.start("new", app=MORE_HANDLERS)

    old = await enqueue(connection, "py:work", 20)
    new = await enqueue(connection, "py:later", 20)
    rows = await ended(connection, *old, *new)

    places = {row["handler"]: row["node"] for row in rows}
    assert places == {"py:work": "old", "py:later": "new"}
    assert {(row["outcome"], row["attempt"]) for row in rows} == {("succeeded", 1)}


async def test_a_run_nobody_offers_is_parked_shown_and_executed_when_a_node_with_it_joins(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("old")
    runs = await enqueue(connection, "py:later", 3)
    runs += await enqueue(connection, "py:later", delivery="at_most_once")
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '0 0 1 1 *', 'py:later')"
    )
    runs.append(await connection.fetchval("SELECT pgcron.run_now('s')"))

    for run in runs:
        await until("it is blocked", partial(is_blocked, connection, run))
    status = await asyncio.to_thread(cluster.command, "status")
    [row] = await ended(connection, *await enqueue(connection, "py:work"))
    joined = cluster.start("new", app=MORE_HANDLERS)
    rows = await ended(connection, *runs)

    assert status.returncode == 0
    assert "5 blocked" in status.stdout
    assert "py:later" in status.stdout
    assert row["outcome"] == "succeeded"  # what is blocked clogs nobody
    assert {(row["outcome"], row["attempt"], row["node"]) for row in rows} == {
        ("succeeded", 1, "new")
    }

    joined.stop()
    joined.exit_code()
    [later] = await enqueue(connection, "py:later")
    await until("it is blocked again", lambda: is_blocked(connection, later))


async def is_blocked(connection: Connection, run: int) -> bool:
    row = await live_run(connection, run)
    assert row is not None
    return bool(row["state"] == "blocked")
