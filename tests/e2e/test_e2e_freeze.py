"""Nodes that are frozen for longer than their lease, and come back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import MORE_HANDLERS, Cluster, is_gone
from tests.waiting import until

TTL = 3.0
EXIT_WITHOUT_LEASE = 71


async def test_a_frozen_node_is_fenced_its_programs_are_gone_and_it_works_again(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    frozen = cluster.start("a")
    runs = await enqueue(connection, "py:work", 3, args={"seconds": 4, "then": 0})
    runs += await enqueue(connection, "py:thread_work", args={"seconds": 4})
    runs += await enqueue(connection, "shell:program", args={"seconds": 60, "manner": "once"})
    await until("all run", lambda: evidence.count("start") == 5 and evidence.count("tick"))
    programs = evidence.processes("tick")
    assert len(programs) == 1

    paused_at = frozen.pause()
    cluster.start("b")
    await until("the program is gone", lambda: all(is_gone(pid) for pid in programs))
    last_tick = max(event.at for event in evidence.events("tick"))
    rows = await ended(connection, *runs)
    await until("3 leases are over", lambda: boottime() - paused_at > 3 * TTL)
    frozen.resume()
    await until("it is back", lambda: frozen.has_joined(times=2))
    await until("it was refused", lambda: len(frozen.events("RunFenced")) >= 4)

    assert last_tick - paused_at < TTL  # before anybody could begin the run anew
    assert min(e.at for e in evidence.events("start") if e.attempt == 2) > last_tick
    assert {(row["outcome"], row["attempt"], row["node"]) for row in rows} == {
        ("succeeded", 2, "b")
    }
    assert frozen.events("NodeFenced")
    assert {fact["run"] for fact in frozen.events("RunFenced")} >= set(runs[:4])
    again = await connection.fetch("SELECT * FROM pgcron.history WHERE id = ANY($1)", runs)
    assert {(row["id"], row["fence"]) for row in again} == {(r["id"], r["fence"]) for r in rows}

    cluster.nodes[-1].stop()
    assert cluster.nodes[-1].exit_code() == 0
    [row] = await ended(connection, *await enqueue(connection, "py:work"))
    assert (row["outcome"], row["node"]) == ("succeeded", "a")
    [row] = await ended(
        connection,
        *await enqueue(connection, "shell:program", args={"seconds": 0, "manner": "once"}),
    )
    assert (row["outcome"], row["node"]) == ("succeeded", "a")


@pytest.mark.long
async def test_a_node_ends_itself_when_a_handler_goes_on_without_a_lease(
    cluster: Cluster, connection: Connection
) -> None:
    frozen = cluster.start("a")
    [run] = await enqueue(connection, "py:unresponsive", args={"seconds": 60})
    await until("it runs", lambda: cluster.evidence.count("start") == 1)
    cluster.start("b")

    paused_at = frozen.pause()
    [row] = await ended(connection, run)
    await until("3 leases are over", lambda: boottime() - paused_at > 3 * TTL)
    frozen.resume()

    assert frozen.exit_code(10) == EXIT_WITHOUT_LEASE
    assert (row["outcome"], row["attempt"], row["node"]) == ("succeeded", 2, "b")


@pytest.mark.long
async def test_a_freeze_shorter_than_half_a_lease_costs_nothing(
    cluster: Cluster, connection: Connection
) -> None:
    frozen = cluster.start("a", lease_ttl="6s")
    cluster.start("b", lease_ttl="6s", slots=1)
    runs = await enqueue(connection, "py:work", 8, args={"seconds": 4})
    await until("they run", lambda: cluster.evidence.count("start") >= 8)

    paused_at = frozen.pause()
    await until("a while is over", lambda: boottime() - paused_at > 2)
    frozen.resume()
    rows = await ended(connection, *runs)

    assert {(row["outcome"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    assert not frozen.events("NodeFenced")


@pytest.mark.long
async def test_a_handler_that_blocks_its_loop_for_two_leases_costs_no_lease(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a")
    cluster.start("b", app=MORE_HANDLERS)
    [spinning] = await enqueue(connection, "py:spins", args={"seconds": 2 * TTL})
    await until("it spins", lambda: cluster.evidence.count("start") == 1)
    [beside] = await enqueue(connection, "shell:program", args={"seconds": 0, "manner": "once"})

    [first] = await ended(connection, beside)
    [second] = await ended(connection, spinning)

    assert first["finished_at"] < second["finished_at"]
    assert {(row["outcome"], row["attempt"]) for row in (first, second)} == {("succeeded", 1)}
    assert not node.events("LeaseEndangered")


async def test_a_late_success_is_refused_while_the_run_is_executed_elsewhere(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    late = cluster.start("a")
    [run] = await enqueue(connection, "py:unresponsive", args={"seconds": 2, "then": 3})
    await until("it runs", lambda: evidence.count("start") == 1)

    late.pause()
    cluster.start("b")
    await until("it runs elsewhere", lambda: evidence.count("start") == 2)
    late.resume()
    await until("the late one is refused", lambda: late.events("RunFenced"))
    done = [(event.attempt, event.kind) for event in evidence.events(run=run)]
    [row] = await ended(connection, run)

    assert done == [(1, "start"), (2, "start"), (1, "end")]
    assert (row["outcome"], row["attempt"], row["node"]) == ("succeeded", 2, "b")
    assert row["finished_at"] - row["started_at"] > timedelta(seconds=2.5)
