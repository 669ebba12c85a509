"""Runs that are stopped when it is hard: by force, across a partition, and not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgcron_ha.operating_system import boottime
from tests.chaos.proxy import Proxy
from tests.e2e.ledger import Connection, ended, enqueue, live_run
from tests.e2e.nodes import MORE_HANDLERS, Cluster, is_gone
from tests.servers import ThrowAwayServer
from tests.waiting import slowness, until

TTL = 3.0
EXIT_UNRESPONSIVE = 72


@pytest.mark.long
async def test_a_run_cancelled_across_a_partition_ends_and_its_slot_is_free_when_it_is_gone(
    cluster: Cluster, connection: Connection, server: ThrowAwayServer
) -> None:
    evidence = cluster.evidence
    name = cluster.dsn.partition("?")[0].rpartition("/")[2]
    async with Proxy(Path(server.folder) / f".s.PGSQL.{server.port}") as proxy:
        dsn = f"postgresql://postgres:any@127.0.0.1:{proxy.port}/{name}?sslmode=disable"
        cut_off = cluster.spawn("a", dsn=dsn)
        await until("it has joined", cut_off.has_joined, deadline=30)
        runs = await enqueue(
            connection,
            "shell:program",
            args={"seconds": 60, "manner": "family"},
            concurrency_key="one",
        )
        runs += await enqueue(
            connection, "py:thread_work", args={"seconds": 60}, concurrency_key="two"
        )
        await until("they run", lambda: evidence.count("start") == 3)
        await until("both programs tick", lambda: len(evidence.processes("tick")) == 2)
        family = evidence.processes("tick")
        cluster.start("b", slots=1, poll_interval="50ms")
        followers = [
            (
                await enqueue(
                    connection, "py:work", args={"seconds": 0.1}, concurrency_key=concurrency_key
                )
            )[0]
            for concurrency_key in ("one", "two")
        ]

        proxy.cut()
        cut_at = boottime()
        for run in runs:
            await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", run)
        rows = await ended(connection, *runs)
        took = boottime() - cut_at
        last_sign = max(event.at for run in runs for event in evidence.events(run=run))
        after = await ended(connection, *followers)

        print(
            f"cancelled {took:.2f} s after the cut; last sign {last_sign - cut_at:.2f} s after it"
        )
        assert {row["outcome"] for row in rows} == {"cancelled"}
        assert took < TTL + 3 * slowness()
        assert all(is_gone(pid) for pid in family)
        assert min(e.at for run in followers for e in evidence.events("start", run)) > last_sign
        assert last_sign - cut_at < TTL
        assert {(row["outcome"], row["node"]) for row in after} == {("succeeded", "b")}
        cut_off.close()


async def test_a_killed_program_has_no_grace_and_its_family_goes_with_it(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    cluster.start("a")
    [run] = await enqueue(connection, "shell:program", args={"seconds": 60, "manner": "family"})
    await until("both run", lambda: len(evidence.processes("tick")) == 2)
    family = evidence.processes("tick")

    answer = cluster.command("runs", "kill", str(run), "--note", "now")
    asked_at = boottime()
    [row] = await ended(connection, run)

    assert answer.stdout == f"run {run} is ended by force where that can be\n"
    assert (row["outcome"], row["cancel_reason"].endswith(": now")) == ("cancelled", True)
    assert boottime() - asked_at < 2 * slowness()
    assert all(is_gone(pid) for pid in family)


@pytest.mark.long
async def test_a_deaf_handler_ends_its_node_when_the_others_have_ended_and_is_replaced_at_once(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    unresponsive = {
        "on_unresponsive_handler": "exit",
        "unresponsive_after": "1s",
        "grace": "5s",
        "lease_ttl": "30s",
    }
    leaving = cluster.start("a", **unresponsive)
    runs = await enqueue(connection, "py:unresponsive_and_loud", 2, args={"seconds": 90})
    runs += await enqueue(connection, "py:thread_work", args={"seconds": 3})
    await until("they run", lambda: evidence.count("start") == 3)
    cluster.start("b", lease_ttl="30s")

    await connection.execute("SELECT pgcron.kill_run($1)", runs[0])
    assert leaving.exit_code(60) == EXIT_UNRESPONSIVE
    gone_at = boottime()
    rows = await ended(connection, *runs)

    [reported] = leaving.events("NodeEndsItself")
    assert (reported["run"], reported["handler"]) == (runs[0], "py:unresponsive_and_loud")
    assert [(row["outcome"], row["attempt"], row["node"]) for row in rows] == [
        ("cancelled", 1, "a"),
        ("succeeded", 2, "b"),  # it was as deaf, and nobody had told it to stop before
        ("succeeded", 1, "a"),
    ]
    assert boottime() - gone_at < min(20, 5 * slowness()), "its lease of 30 s was not waited for"
    [again] = [event.at for event in evidence.events("start", runs[1]) if event.attempt == 2]
    assert max(event.at for event in evidence.events("tick")) < again
    because = await connection.fetchval(
        "SELECT ended_because FROM pgcron.nodes WHERE name = 'a' AND state = 'dead'"
    )
    assert because == (
        f"ended itself: run {runs[0]} (py:unresponsive_and_loud)"
        " went on though asked to stop (cancelled)"
    )


@pytest.mark.long
async def test_a_node_that_keeps_a_deaf_handler_works_on_without_its_slot(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a", slots=2, unresponsive_after="1s")
    cluster.start("b", app=MORE_HANDLERS)
    [run] = await enqueue(connection, "py:unresponsive", args={"seconds": 18, "then": 0})
    await until("it runs", lambda: cluster.evidence.count("start") == 1)

    await connection.execute("SELECT pgcron.kill_run($1)", run)
    await until("it is told", lambda: node.events("RunIsStuck"))
    rows = await ended(connection, *await enqueue(connection, "py:work", 3))

    assert {row["outcome"] for row in rows} == {"succeeded"}
    row = await live_run(connection, run)
    assert row is not None
    assert row["state"] == "running"
    words = f"node 'a': run {run} goes on though asked to stop, and holds its slot\n"
    await until("its node is said to be short of a slot", lambda: words in shown(cluster))
    [row] = await ended(connection, run)
    # It did end what it was about, and had never heard of the kill.
    assert row["outcome"] == "succeeded"
    assert row["cancel_reason"].startswith("killed by ")
    assert not node.has_ended()


def shown(cluster: Cluster) -> str:
    return cluster.command("nodes").stdout
