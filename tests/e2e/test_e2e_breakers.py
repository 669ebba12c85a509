"""Circuit breakers on nodes that are killed."""

from __future__ import annotations

import pytest

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.waiting import until

HANDLER = "py:wait_for_file"


@pytest.mark.long
async def test_when_the_node_that_probes_is_killed_another_one_probes_and_never_two(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    gate = cluster.folder / "the service is back"
    nodes = [cluster.start(name) for name in ("a", "b", "c")]
    await connection.execute("SELECT pgcron.set_breaker($1, open_for => '2 s')", HANDLER)
    await connection.execute("SELECT pgcron.open_breaker($1, 'away', 'the test says so')", HANDLER)
    await until("all have heard", lambda: all(node.events("CircuitOpened") for node in nodes))
    # A claim that was under way when its node heard may still begin some: none is under way then.
    later = await connection.fetchval("SELECT now() + interval '2 seconds'")
    runs = await enqueue(connection, HANDLER, 50, args={"path": str(gate)}, due_at=later)

    await until("a probe runs", lambda: evidence.count("start") == 1)
    (first,) = evidence.events("start")
    prober = next(node for node in nodes if node.pid == first.pid)
    prober.kill9()
    await until("another probe runs", lambda: evidence.count("start") > 1)
    second = evidence.events("start")[1]
    tried = await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE attempt > 0")
    probed = await connection.fetchval("SELECT probe_run FROM pgcron.breaker")
    gate.touch()
    rows = await ended(connection, *runs)

    assert second.pid != first.pid
    assert tried <= 2
    assert probed == second.run
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert sum(row["attempt"] for row in rows) == 51
    assert evidence.overlaps(cluster.deaths()) == []
