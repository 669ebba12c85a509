"""``on_lease_loss = "finish"``: what goes on while its node can't reach the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.evidence import Evidence
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, is_gone
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import until

TTL = 3.0
FINISHING = ("py:finish", "py:finish_in_a_thread", "shell:finish")


@pytest.fixture
def own_server() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer() as running:
        yield running


@pytest.mark.long
async def test_what_may_finish_goes_on_through_an_outage_and_is_told_after_it(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster:
        evidence = cluster.evidence
        node = cluster.start("a")
        connection = await asyncpg.connect(dsn)
        long, longer = {"seconds": 2 * TTL}, {"seconds": 4 * TTL}
        # Processes of their own take long to begin where others have the processor.
        finishing = await enqueue(connection, "py:finish_isolated", args=longer)
        await until("it runs", lambda: evidence.count("start") == 1)
        for handler in FINISHING:
            finishing += await enqueue(connection, handler, args=long)
            finishing += await enqueue(connection, handler, args=longer)
        once: dict[str, object] = {"seconds": 60, "then": 0}
        stopping = await enqueue(connection, "py:work", args=once)
        stopping += await enqueue(connection, "py:finish", args=once, delivery="at_most_once")
        stopping += await enqueue(connection, "py:finish", args=once, concurrency_key="one")
        stopping += await enqueue(
            connection, "shell:program", args={"seconds": 60, "manner": "once"}
        )
        await connection.close()
        runs = set(finishing + stopping)
        await until("all run", lambda: {event.run for event in evidence.events("start")} == runs)

        began = boottime()
        await asyncio.to_thread(own_server.stop)
        await until("some are done", lambda: len(done(evidence)) >= len(FINISHING))
        await until("three leases are over", lambda: boottime() > began + 3 * TTL)
        stopped = {event.run for event in evidence.events("stopped")}
        await asyncio.to_thread(own_server.start)

        connection = await asyncpg.connect(dsn)
        rows = {row["id"]: row for row in await ended(connection, *finishing, *stopping)}
        reported = [(rows[run]["outcome"], rows[run]["attempt"]) for run in finishing]
        assert reported == [("succeeded", 1)] * len(finishing)
        starts = [event.run for event in evidence.events("start")]
        assert {starts.count(run) for run in finishing} == {1}
        assert stopped == set(stopping[:3])
        assert [rows[run]["outcome"] for run in stopping] == [
            "succeeded", "lost", "succeeded", "succeeded",
        ]  # fmt: skip
        assert {rows[run]["attempt"] for run in (stopping[0], *stopping[2:])} == {2}
        assert evidence.overlaps() == []
        assert not node.has_ended()
        assert not node.events("NodeFenced")
        await connection.close()


async def test_what_may_finish_is_stopped_when_another_node_has_its_run(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    first = cluster.start("a")
    [run] = await enqueue(connection, "shell:finish", args={"seconds": 60})
    await until("it runs", lambda: evidence.count("start") == 1)
    program = evidence.events("start")[0].pid

    first.pause()
    cluster.start("b")
    await until("b has it", lambda: evidence.count("start") == 2)
    assert not is_gone(program)  # it said that it may be executed twice at once
    first.resume()
    await until("a has stopped its own", lambda: is_gone(program))
    second = evidence.events("start")[1].pid
    assert not is_gone(second)
    await connection.execute("SELECT pgcron.cancel_run($1)", run)
    [row] = await ended(connection, run)
    assert (row["outcome"], row["attempt"], row["node"]) == ("cancelled", 2, "b")
    assert first.events("NodeFenced")


async def test_what_may_finish_does_not_outlive_its_node(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a")
    for handler in ("shell:finish", "py:finish_isolated"):
        await enqueue(connection, handler, args={"seconds": 60})
    await until("both run", lambda: cluster.evidence.count("start") == 2)
    pids = [event.pid for event in cluster.evidence.events("start")]
    node.kill9()
    await until("both are gone", lambda: all(map(is_gone, pids)))


def done(evidence: Evidence) -> set[int]:
    return {event.run for event in evidence.events("end")}
