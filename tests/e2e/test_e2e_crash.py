"""Nodes that are killed."""

from __future__ import annotations

import signal

import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue, live_run
from tests.e2e.nodes import MORE_HANDLERS, Cluster, descendants_of, is_gone, parent_of, send
from tests.waiting import slowness, until

TTL = 3.0


async def test_runs_of_a_killed_node_run_again_within_its_lease_and_three_seconds(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    nodes = [cluster.start(name, slots=50) for name in ("a", "b", "c")]
    runs = await enqueue(connection, "py:work", 200, args={"seconds": 2})

    # The last fifty are under way, and the survivors have room for those of the victim. What has
    # ended is told: a node that dies in between has its run executed again, as promised.
    reported = "SELECT count(*) = 150 FROM pgcron.history"
    await until("the first wave is over", lambda: connection.fetchval(reported), deadline=30)
    await until("the second wave runs", lambda: evidence.count("start") == 200)
    ended_before = {event.run for event in evidence.events("end")}
    last_starts = {event.run: event.pid for event in evidence.events("start")}
    under_way = [pid for run, pid in last_starts.items() if run not in ended_before]
    victim = max(nodes, key=lambda node: under_way.count(node.pid))
    killed_at = victim.kill9()
    rows = await ended(connection, *runs)

    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert evidence.overlaps(cluster.deaths()) == []
    again = [event for event in evidence.events("start") if event.attempt == 2]
    worst = max(event.at - killed_at for event in again)
    print(f"{len(again)} runs began again, the last one {worst:.2f} s after the kill")
    assert worst <= TTL + 3 * slowness()
    completed = [event.run for event in evidence.events("end")]
    assert len(completed) == len(set(completed)) == 200


async def test_a_node_that_restarts_frees_its_runs_before_its_lease_ends(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a", lease_ttl="60s")
    runs = await enqueue(connection, "py:work", 5, args={"seconds": 60, "then": 0})
    await until("all run", lambda: cluster.evidence.count("start") == 5)

    node.kill9()
    restarted_at = boottime()
    cluster.spawn("a", lease_ttl="60s")
    rows = await ended(connection, *runs)

    starts = [event for event in cluster.evidence.events("start") if event.attempt == 2]
    last = max(event.at for event in starts) - restarted_at
    print(f"all ran again {last:.2f} s after the new process was started")
    assert [row["attempt"] for row in rows] == [2] * 5
    assert cluster.evidence.overlaps(cluster.deaths()) == []
    assert last <= 2 * slowness()


async def test_a_restarted_node_frees_its_runs_only_when_their_programs_are_gone(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    node = cluster.start("a", lease_ttl="60s")
    [run] = await enqueue(connection, "shell:program", args={"seconds": 60, "manner": "once"})
    await until("the program ticks", lambda: evidence.count("tick") > 0)
    [program] = evidence.processes("tick")
    supervisor = parent_of(program)
    assert parent_of(supervisor) == node.pid

    # A supervisor that can't do its duty yet: the program outlives the node.
    send(supervisor, signal.SIGSTOP)
    family = descendants_of(supervisor)
    try:
        node.kill9()
        successor = cluster.spawn("a", lease_ttl="60s")
        seen = evidence.count("tick")
        await until("the program lives on", lambda: evidence.count("tick") > seen + 40)
        row = await live_run(connection, run)
        assert row is not None
        assert (row["state"], row["attempt"]) == ("running", 1)
        assert not successor.has_ended()
    finally:
        send(supervisor, signal.SIGCONT)
    [ending] = await ended(connection, run)

    assert (ending["outcome"], ending["attempt"]) == ("succeeded", 2)
    assert evidence.overlaps() == []
    assert all(is_gone(pid) for pid in (supervisor, *family))


async def test_programs_die_with_their_node_and_run_elsewhere_only_afterwards(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    victim = cluster.start("a")
    args = {"seconds": 60, "manner": "family"}
    [run] = await enqueue(connection, "shell:program", args=args, max_attempts=2)
    await until("two processes tick", lambda: len(evidence.processes("tick")) == 2)
    family = descendants_of(victim.pid)  # the one that left its session, too
    assert evidence.processes("tick") < set(family)
    cluster.start("b")

    killed_at = victim.kill9()
    await until("the family is gone", lambda: all(is_gone(pid) for pid in family))
    gone_after = boottime() - killed_at
    await until("it runs on b", lambda: any(e.attempt == 2 for e in evidence.events("start")))

    first = [event.at for event in evidence.events(run=run) if event.attempt == 1]
    second = [event.at for event in evidence.events(run=run) if event.attempt == 2]
    print(f"the family was gone {gone_after:.2f} s after the kill")
    assert max(first) < min(second)
    assert max(first) - killed_at < 2 * slowness()


async def test_a_run_that_may_start_only_once_is_lost_with_its_node(
    cluster: Cluster, connection: Connection
) -> None:
    victim = cluster.start("a")
    [run] = await enqueue(connection, "py:work", args={"seconds": 60}, delivery="at_most_once")
    await until("it runs", lambda: cluster.evidence.count("start") == 1)
    cluster.start("b")

    victim.kill9()
    [row] = await ended(connection, run)

    assert row["outcome"] == "lost"
    assert cluster.evidence.count("start") == 1
    letter = await connection.fetchrow("SELECT * FROM pgcron.dead_letter WHERE run_id = $1", run)
    assert letter is not None
    assert letter["outcome"] == "lost"


@pytest.mark.long
async def test_a_run_that_kills_its_nodes_ends_dead_after_its_attempts(
    cluster: Cluster, connection: Connection
) -> None:
    victims = [cluster.start(name) for name in ("a", "b")]
    survivor = cluster.start("c", app=MORE_HANDLERS)
    policy = {"max_attempts": 2, "retry": '{"base": 0.1}'}
    [run] = await enqueue(connection, "py:poison", **policy)

    [row] = await ended(connection, run)

    assert (row["outcome"], row["attempt"]) == ("dead", 2)
    assert [victim.exit_code() for victim in victims] == [13, 13]
    assert not survivor.has_ended()
    assert "its lease ran out" in row["error"]


async def test_two_nodes_of_one_name_on_one_host_do_not_bury_each_other(
    cluster: Cluster, connection: Connection
) -> None:
    twins = [cluster.start("twin", lease_ttl="60s", slots=2) for _ in range(2)]
    runs = await enqueue(connection, "py:work", 4, args={"seconds": 60, "then": 0})
    await until("all run", lambda: cluster.evidence.count("start") == 4)
    assert await count_living(connection) == 2

    twins[0].kill9()
    cluster.start("twin", lease_ttl="60s")  # gets the first one's folder, and only its runs
    first = {e.run for e in cluster.evidence.events("start") if e.pid == twins[0].pid}
    rows = await ended(connection, *first)

    assert {row["attempt"] for row in rows} == {2}
    assert await count_living(connection) == 2
    assert not twins[1].events("NodeFenced")
    for run in set(runs) - first:
        row = await live_run(connection, run)
        assert row is not None
        assert row["attempt"] == 1


async def count_living(connection: Connection) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.node WHERE state = 'alive' AND lease_until > now()"
    )
    return count
