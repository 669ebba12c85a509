"""The database is away, or silent, for longer than a lease."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue, unaccounted
from tests.e2e.nodes import Cluster, children_of, is_gone
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import until

TTL = 3.0


@pytest.fixture
def own_server() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer() as running:
        yield running


IS_AHEAD = "SELECT watermark > now() FROM pgcron.cursor"


@pytest.mark.parametrize("how", [pytest.param("stopped", marks=pytest.mark.long), "frozen"])
async def test_nodes_stop_their_handlers_before_the_lease_ends_and_go_on_after_an_outage(
    own_server: ThrowAwayServer, tmp_path: Path, how: str
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster:
        evidence = cluster.evidence
        nodes = [cluster.start(name, horizon="60s") for name in ("a", "b")]
        connection = await asyncpg.connect(dsn)
        await schedule_every_second(connection)
        runs = await enqueue(connection, "py:work", 6, args={"seconds": 60, "then": 0})
        runs += await enqueue(connection, "py:thread_work", args={"seconds": 20})
        runs += await enqueue(connection, "shell:program", args={"seconds": 60, "manner": "once"})
        await connection.close()
        await until("all run", lambda: started(cluster, runs) == set(runs))

        began = boottime()
        pids = await take_away(own_server, how)
        await until("all handlers were stopped", lambda: stopped(cluster) >= set(runs[:7]))
        await until("the program is gone", lambda: programs_are_gone(cluster))
        over = last_sign(cluster, runs) - began
        await until("two leases are over", lambda: boottime() - began > 2 * TTL)
        await bring_back(own_server, pids)

        connection = await asyncpg.connect(dsn)
        rows = await ended(connection, *runs[:6], *runs[7:])
        await connection.execute("SELECT pgcron.cancel_run($1)", runs[6])
        # What is undecided at a pause is recorded when the pause is over.
        await until("fires are decided again", lambda: connection.fetchval(IS_AHEAD))
        await connection.execute("UPDATE pgcron.schedule SET enabled = false")
        await until("nothing lives", lambda: nothing_lives(connection))
        print(f"everything was stopped {over:.2f} s after the database was away")
        assert over < TTL
        assert {row["outcome"] for row in rows} == {"succeeded"}
        assert evidence.overlaps() == []
        assert not any(node.has_ended() for node in nodes)
        assert await unaccounted(connection) == 0
        assert await undecided_fires(connection) == []
        await connection.close()


async def schedule_every_second(connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
        " VALUES ('s', '* * * * * *', 'py:work', 'allow')"
    )


async def take_away(server: ThrowAwayServer, how: str) -> list[int]:
    """The processes that are frozen, none when the server is stopped."""
    if how == "stopped":
        await asyncio.to_thread(server.stop)
        return []
    pids = [server.pid, *children_of(server.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


async def bring_back(server: ThrowAwayServer, pids: list[int]) -> None:
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)
    if not pids:
        await asyncio.to_thread(server.start)


def started(cluster: Cluster, runs: list[int]) -> set[int]:
    return {event.run for event in cluster.evidence.events("start")} & set(runs)


def stopped(cluster: Cluster) -> set[int]:
    return {event.run for event in cluster.evidence.events("stopped")}


def last_sign(cluster: Cluster, runs: list[int]) -> float:
    """When the last of these was stopped, or its program wrote its last line."""
    signs = [*cluster.evidence.events("stopped"), *cluster.evidence.events("tick")]
    return max(event.at for event in signs if event.run in runs)


def programs_are_gone(cluster: Cluster) -> bool:
    return all(is_gone(event.pid) for event in cluster.evidence.events("tick"))


async def nothing_lives(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM pgcron.run")


async def undecided_fires(connection: Connection) -> list[dict[str, object]]:
    """Of every second of the schedule up to the pause: those that are neither an occurrence nor in
    one range of missed fires; a range is of those that have no row of their own.
    """
    rows = await connection.fetch(
        "SELECT fire, ranges, c.since AS paused_at FROM pgcron.cursor c,"
        " LATERAL (SELECT min(v.since) AS created_at FROM pgcron.schedule_version v"
        "          WHERE v.schedule_id = c.schedule_id) v,"
        " generate_series(date_trunc('second', created_at) + interval '1 second', c.since,"
        "                 '1 second') fire,"
        " LATERAL (SELECT count(*) AS ranges FROM pgcron.missed m"
        "          WHERE fire BETWEEN m.first_at AND m.last_at) m"
        " WHERE NOT EXISTS (SELECT FROM pgcron.occurrence o WHERE o.fire_at = fire) AND ranges <> 1"
    )
    return [dict(row) for row in rows]
