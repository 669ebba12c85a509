"""Nodes that are told to stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, descendants_of, is_gone
from tests.waiting import slowness, until

GRACE = 5.0


async def test_a_stopped_node_lets_its_runs_end_and_gives_back_what_did_not_begin(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    leaving = cluster.start("a", slots=5, grace=f"{GRACE}s")
    cluster.start("b", slots=5)
    runs = await enqueue(connection, "py:work", 200, args={"seconds": 0.1})
    await until("some have ended", lambda: evidence.count("end") > 40)

    leaving.stop()
    stopped_at = boottime()
    code = leaving.exit_code()
    took = boottime() - stopped_at
    rows = await ended(connection, *runs)

    print(f"the node left {took:.2f} s after it was told to")
    assert code == 0
    assert took < GRACE
    assert {(row["outcome"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    assert {row["node"] for row in rows} == {"a", "b"}
    assert len(evidence.executions()) == 200
    [state] = await connection.fetch("SELECT * FROM pgcron.nodes WHERE name = 'a'")
    assert (state["state"], state["ended_because"]) == ("dead", "stopped in order")


async def test_what_lasts_longer_than_the_grace_is_given_back_and_succeeds_elsewhere(
    cluster: Cluster, connection: Connection, tmp_path: Path
) -> None:
    evidence, path = cluster.evidence, tmp_path / "go on"
    leaving = cluster.start("a", grace="1s")
    runs = await enqueue(connection, "py:wait_for_file", args={"path": str(path)})
    seconds = 3 * slowness()
    family_args = {"seconds": seconds, "manner": "family"}
    runs += await enqueue(connection, "shell:program", args=family_args)
    runs += await enqueue(connection, "py:thread_work", args={"seconds": seconds})
    await until("all run", lambda: evidence.count("start") == 4)
    family = descendants_of(leaving.pid)

    leaving.stop()
    cluster.start("b")
    code = leaving.exit_code()
    assert all(is_gone(pid) for pid in family)
    path.touch()
    rows = await ended(connection, *runs, deadline=30 + 2 * seconds)

    assert code == 0
    assert {(row["outcome"], row["attempt"], row["node"]) for row in rows} == {
        ("succeeded", 1, "b")
    }


async def test_a_second_signal_ends_the_grace(cluster: Cluster, connection: Connection) -> None:
    leaving = cluster.start("a", grace="60s")
    [run] = await enqueue(connection, "py:work", args={"seconds": 60})
    await until("it runs", lambda: cluster.evidence.count("start") == 1)

    leaving.stop()
    await until("it drains", lambda: is_draining(connection))
    leaving.stop()

    assert leaving.exit_code(15) == 0
    row = await connection.fetchrow("SELECT * FROM pgcron.run WHERE id = $1", run)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 0)


@pytest.mark.long
async def test_a_handler_that_does_not_stop_never_runs_beside_its_next_attempt(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    leaving = cluster.start("a", grace="0s")
    [run] = await enqueue(connection, "py:unresponsive_and_loud", args={"seconds": 60})
    await until("it runs", lambda: evidence.count("tick") > 0)
    cluster.start("b", poll_interval="50ms")

    leaving.stop()
    leaving.exit_code(60)
    [row] = await ended(connection, run)

    # What signs the node off is its process still, in which the handler has ended.
    last_sign = max(event.at for event in evidence.events(run=run) if event.attempt == 1)
    [again] = [event.at for event in evidence.events("start", run) if event.attempt == 2]
    print(f"it ran again {again - last_sign:.2f} s after the last sign of the deaf one")
    assert (row["outcome"], row["attempt"]) == ("succeeded", 2)
    assert last_sign < again
    assert evidence.overlaps() == []


async def is_draining(connection: Connection) -> bool:
    return bool(
        await connection.fetchval("SELECT count(*) FROM pgcron.node WHERE state <> 'alive'")
    )
