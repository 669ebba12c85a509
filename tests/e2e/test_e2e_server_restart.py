"""The database goes away under load, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.evidence import Evidence
from tests.e2e.ledger import ended, enqueue
from tests.e2e.nodes import Cluster, NodeProcess
from tests.e2e.producer import Producer
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import slowness, until

TTL = 10.0
ASKED_TO_STOP_AT = 0.65


@pytest.fixture
def own_server() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(durable=True) as running:
        yield running


@pytest.mark.long
async def test_every_accepted_run_ends_though_the_server_restarts_again_and_again(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    go_on = tmp_path / "go on"
    with Cluster(dsn, tmp_path) as cluster:
        evidence = cluster.evidence
        nodes = [cluster.start(name, lease_ttl=f"{TTL}s") for name in ("a", "b")]
        connection = await asyncpg.connect(dsn)
        long_ones = await enqueue(connection, "py:wait_for_file", 2, args={"path": str(go_on)})
        long_ones += await enqueue(
            connection, "shell:program", args={"seconds": 600, "manner": "once"}
        )
        await connection.close()
        await until("they run", lambda: evidence.count("start") == 3)
        producer = Producer(dsn)

        for how in (
            lambda: own_server.stop("fast"),
            lambda: own_server.stop("immediate"),
            own_server.kill9,
        ):
            await more_runs_end(evidence)
            await restart(own_server, how)
            back = boottime()
            await more_runs_end(evidence)
            print(f"work went on {boottime() - back:.2f} s after the server was up")
        producer.stop()
        go_on.touch()
        connection = await asyncpg.connect(dsn)
        rows = await ended(connection, *producer.accepted, *long_ones[:2])
        await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", long_ones[2])
        [cancelled] = await ended(connection, long_ones[2])
        await connection.close()

        print(f"{len(producer.accepted)} runs were accepted; refused: {set(producer.failures)}")
        assert {row["outcome"] for row in rows} == {"succeeded"}
        assert len({row["id"] for row in rows}) == len(rows)
        long_rows = [row for row in rows if row["id"] in long_ones]
        assert {row["attempt"] for row in long_rows} == {1}
        assert (cancelled["outcome"], cancelled["attempt"]) == ("cancelled", 1)
        assert evidence.overlaps() == []
        assert not any(node.has_ended() for node in nodes)
        assert not any(node.events("NodeFenced") for node in nodes)


async def test_a_node_is_at_work_within_two_seconds_of_its_database(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster:
        node = cluster.start("a", lease_ttl="30s")

        await asyncio.to_thread(own_server.stop)
        # Whoever has failed often waits long; the lease is looked after more eagerly than that.
        await until("the session misses it", lambda: failures(node, "session"))
        await until(
            "the dispatcher waits long",
            lambda: failures(node, "dispatcher")[-1:] > [2.6],
            deadline=60,
            pause=0.005,
        )
        await asyncio.to_thread(own_server.start)
        up = boottime()
        connection = await asyncpg.connect(dsn)
        [run] = await enqueue(connection, "py:work")
        renewed = "SELECT lease_until > now() + lease_ttl - interval '3 seconds' FROM pgcron.node"
        await until("the lease is renewed", lambda: connection.fetchval(renewed))
        renewed_after = boottime() - up
        await ended(connection, run)
        await connection.close()

        started_after = cluster.evidence.events("start")[0].at - up
        print(f"renewed after {renewed_after:.2f} s, a run began after {started_after:.2f} s")
        assert renewed_after < 1 * slowness()
        assert started_after < 2 * slowness()


def failures(node: NodeProcess, service: str) -> list[float]:
    """The pauses that the service has announced after its failures."""
    events = node.events("ServiceFailed")
    return [event["pause"] for event in events if event["service"] == service]


async def restart(server: ThrowAwayServer, stop: Callable[[], None]) -> None:
    """Shorter than what stops a handler, or the test would prove nothing."""
    began = boottime()
    await asyncio.to_thread(stop)
    await asyncio.to_thread(server.start)
    took = boottime() - began
    print(f"the server was away for {took:.2f} s")
    assert took < ASKED_TO_STOP_AT * TTL - 2


async def more_runs_end(evidence: Evidence) -> None:
    seen = evidence.count("end")
    await until("50 more runs have ended", lambda: evidence.count("end") > seen + 50)
