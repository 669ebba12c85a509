"""What a node needs is scarce, not gone: the server's disk, its connections, those of handlers."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, NodeProcess, children_of
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import slowness, until

TTL = 3.0
HOSTILE = "tests.e2e.hostile_handlers:app"
CONNECTIONS = 40
MOST_FILE_BYTES = 17 * 1024 * 1024  # a segment of the write-ahead log still fits


@pytest.fixture
def own_server() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(settings={"max_connections": str(CONNECTIONS)}) as running:
        yield running


@pytest.mark.long
async def test_ends_of_runs_wait_for_a_server_whose_disk_takes_nothing_more(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster:
        node = cluster.start("a")
        connection = await asyncpg.connect(dsn)
        await ended(connection, *await enqueue(connection, "py:work"))
        await fill_a_file_of_history(connection)
        await connection.execute("SET enable_seqscan = off")
        limit_files(own_server, MOST_FILE_BYTES)
        runs = await enqueue(connection, "py:work", 3000)
        await until("the server refuses", lambda: complaints(node, "could not extend file"))
        beats = await beat_sequence(connection)
        await until("beats go on", lambda: has_moved(connection, beats + 8))
        assert not node.has_ended()

        limit_files(own_server, "unlimited")
        rows = await ended(connection, *runs)
        assert {(row["outcome"], row["attempt"]) for row in rows} == {("succeeded", 1)}
        assert len(rows) == len(runs)
        starts = Counter(event.run for event in cluster.evidence.events("start"))
        assert {starts[run] for run in runs} == {1}
        unharmed(node)
        await connection.close()


async def fill_a_file_of_history(connection: Connection) -> None:
    """History is as large then as a file of this server may be: the next row needs more of it."""
    size = "SELECT max(pg_relation_size(tableoid::regclass)) FROM pgcron.history"
    while await connection.fetchval(size) < MOST_FILE_BYTES:
        await connection.execute(
            "INSERT INTO pgcron.history"
            " SELECT h.* FROM (SELECT * FROM pgcron.history LIMIT 1) h, generate_series(1, 10000)"
        )


async def test_a_server_that_died_of_its_full_disk_finds_all_runs_again(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster:
        node = cluster.start("a")
        connection = await asyncpg.connect(dsn)
        runs = await enqueue(connection, "py:work", 40, args={"seconds": 0.3})
        await until("some run", lambda: cluster.evidence.count("start") >= 5)
        limit_files(own_server, 1024 * 1024)  # its write-ahead log can't be written, beyond that
        with suppress(asyncpg.PostgresError, OSError):
            await connection.execute("SELECT pg_logical_emit_message(true, 'x', $1)", "x" * 2**21)
        await until("the server is gone", connection.is_closed)
        await until("the node says so", lambda: complaints(node, ""))
        own_server.kill9()
        own_server.start()

        connection = await asyncpg.connect(dsn)
        rows = await ended(connection, *runs)
        assert {row["outcome"] for row in rows} == {"succeeded"}
        assert cluster.evidence.overlaps() == []
        assert not node.has_ended()
        await connection.close()


async def test_a_node_keeps_its_lease_and_its_ends_while_others_have_all_connections(
    own_server: ThrowAwayServer, tmp_path: Path
) -> None:
    dsn = own_server.create_database("work")
    await migrate(dsn)
    with Cluster(dsn, tmp_path) as cluster, ExitStack() as hogs:
        node = cluster.start("a", app=HOSTILE)
        connection = await asyncpg.connect(dsn)
        await ended(connection, *await enqueue(connection, "py:bystander"))
        take_all_connections(dsn, hogs)
        before = await beat_sequence(connection)
        refused = await enqueue(
            connection, "py:holds_a_connection", args={"seconds": 0}, delivery="transactional",
            max_attempts=100, retry='{"cap": 0.5}',
        )  # fmt: skip
        began = boottime()
        while boottime() < began + 2 * TTL:
            [row] = await ended(connection, *await enqueue(connection, "py:bystander"))
            assert (row["started_at"] - row["due_at"]).total_seconds() < TTL * slowness()
        assert await beat_sequence(connection) - before >= 9 / slowness()
        hogs.close()
        [row] = await ended(connection, *refused)
        assert row["outcome"] == "succeeded"
        unharmed(node)
        await connection.close()


@pytest.mark.long
async def test_handlers_that_hold_all_their_connections_keep_no_other_run(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a", app=HOSTILE, transactions=2)
    holding = await enqueue(
        connection, "py:holds_a_connection", 7, args={"seconds": TTL / 2},
        delivery="transactional",
    )  # fmt: skip
    plain = await enqueue(
        connection, "py:holds_a_connection_in_a_thread", 3, args={"seconds": TTL / 2},
        delivery="transactional",
    )  # fmt: skip
    waits = []
    before = await beat_sequence(connection)
    began = boottime()
    while not await is_over(connection, holding + plain):
        [row] = await ended(connection, *await enqueue(connection, "py:bystander"))
        waits.append((row["finished_at"] - row["due_at"]).total_seconds())
    seconds = boottime() - began
    print(f"{len(waits)} others in {seconds:.1f} s; the longest was over after {max(waits):.2f} s")
    assert seconds > 2 * TTL  # there were too few connections
    assert max(waits) < TTL * slowness()
    assert await beat_sequence(connection) - before >= seconds / TTL * 4 / slowness()
    rows = await ended(connection, *holding, *plain)
    assert {(row["outcome"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    unharmed(node)


@pytest.mark.long
async def test_slow_handlers_of_a_limited_queue_leave_slots_to_the_others(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("a", slots=6, queues="default,slow")
    await connection.execute("SELECT pgcron.set_queue('slow', max_running => 4)")
    slow = []
    for handler, more in (
        ("py:unresponsive", {}), ("py:work", {}), ("py:finish_isolated", {}),
        ("shell:program", {"manner": "once"}),
    ):  # fmt: skip
        args = {"seconds": 3 * TTL, **more}
        slow += await enqueue(connection, handler, 10, args=args, queue="slow")
    await until("four of them run", lambda: cluster.evidence.count("start") == 4, deadline=30)
    waits = []
    began = boottime()
    while boottime() < began + 2 * TTL:
        [row] = await ended(connection, *await enqueue(connection, "py:work"))
        waits.append((row["finished_at"] - row["due_at"]).total_seconds())
        running = "SELECT count(*) FROM pgcron.run WHERE state = 'running' AND queue = 'slow'"
        assert await connection.fetchval(running) <= 4
    print(f"{len(waits)} others; the longest was over after {max(waits):.2f} s")
    assert max(waits) < TTL / 2 * slowness()
    unharmed(node)


def unharmed(node: NodeProcess) -> None:
    assert not node.has_ended()
    assert len(node.events("NodeJoined")) == 1
    assert not node.events("NodeFenced") + node.events("LeaseEndangered")


def complaints(node: NodeProcess, words: str) -> list[dict[str, Any]]:
    return [event for event in node.events("ServiceFailed") if words in str(event["error"])]


def limit_files(server: ThrowAwayServer, size: int | str) -> None:
    """No file of the server may grow beyond; so it is with a disk that has no room."""
    for pid in (server.pid, *children_of(server.pid)):
        try:
            owner = os.stat(f"/proc/{pid}")
        except FileNotFoundError:  # a worker that has ended
            continue
        # As its owner, which needs no privilege.
        command = ["prlimit", "--pid", str(pid), f"--fsize={size}:"]
        subprocess.run(command, user=owner.st_uid, group=owner.st_gid, check=False)


def take_all_connections(dsn: str, hogs: ExitStack) -> None:
    def take() -> None:
        for _ in range(CONNECTIONS):
            hogs.callback(psycopg.connect(dsn).close)

    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        take()


async def beat_sequence(connection: Connection) -> int:
    number: int = await connection.fetchval("SELECT max(beat_sequence) FROM pgcron.node")
    return number


async def has_moved(connection: Connection, beats: int) -> bool:
    return await beat_sequence(connection) >= beats


async def is_over(connection: Connection, runs: list[int]) -> bool:
    live = "SELECT EXISTS (SELECT FROM pgcron.run WHERE id = ANY($1))"
    return not await connection.fetchval(live, runs)
