"""Handlers that do what none should: the node survives, the outcome is true, others are not kept.

``HOSTILE_MEGABYTES=1024`` makes the floods a gigabyte each, ``HOSTILE_SECONDS=30`` lets those that
block an event loop, or compute, last so long.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from pgcron_ha.operating_system import resident_bytes
from tests.e2e.hostile_handlers import KINDS
from tests.e2e.ledger import Connection, Row, ended, enqueue
from tests.e2e.nodes import Cluster, NodeProcess, is_gone, send
from tests.executors.running import readable_pid
from tests.product.cli import granting
from tests.product.executors import MAX_LINES
from tests.waiting import until

APP = "tests.e2e.hostile_handlers:app"
MEGABYTES = int(os.environ.get("HOSTILE_MEGABYTES", "16"))
TTL_SECONDS = 3.0
SECONDS = float(os.environ.get("HOSTILE_SECONDS", TTL_SECONDS + 1))
# What a run may wait for a start while others misbehave: the time after which a node that did
# nothing at all would be replaced.
MOST_DELAY_SECONDS = TTL_SECONDS + 3.0
MOST_NODE_BYTES = 200 * 1024 * 1024

DEADLINE_SECONDS = 60 + MEGABYTES / 4 + 2 * SECONDS

Expected = dict[str, tuple[str, str | None]]


@asynccontextmanager
async def bystanders(cluster: Cluster, connection: Connection) -> AsyncIterator[list[int]]:
    """Good runs are asked for all the time; afterwards each has started in time, and ended."""
    runs: list[int] = []
    over = asyncio.Event()

    async def ask() -> None:
        own = await asyncpg.connect(cluster.dsn)
        while not over.is_set():
            runs.extend(await enqueue(own, "py:bystander"))
            try:
                await asyncio.wait_for(over.wait(), 0.25)
            except TimeoutError:
                continue
        await own.close()

    asking = asyncio.create_task(ask())
    try:
        yield runs
    finally:
        over.set()
        await asking
    rows = await ended(connection, *runs)
    longest = max((row["started_at"] - row["due_at"]).total_seconds() for row in rows)
    print(f"{len(runs)} bystanders; the longest wait for a start was {longest:.2f} s")
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert longest < MOST_DELAY_SECONDS


async def misbehave(
    connection: Connection, expected: Expected, args: dict[str, dict[str, Any]]
) -> dict[str, Row]:
    """One run of each handler, all at once; the outcomes are as expected."""
    runs = {}
    for handler in expected:
        [runs[handler]] = await enqueue(
            connection, handler, args=args.get(handler.partition(":")[2].partition(".")[0]),
            max_attempts=1,
        )  # fmt: skip
    rows = {
        row["id"]: row for row in await ended(connection, *runs.values(), deadline=DEADLINE_SECONDS)
    }
    found = {handler: rows[run] for handler, run in runs.items()}
    reported = {handler: await _reported(connection, row) for handler, row in found.items()}
    assert reported == expected
    return found


async def _reported(connection: Connection, row: Row) -> tuple[str, str | None]:
    last = "SELECT error_class FROM pgcron.attempt WHERE run_id = $1 ORDER BY attempt DESC LIMIT 1"
    return row["outcome"], await connection.fetchval(last, row["id"])


def still_the_same(node: NodeProcess) -> None:
    assert not node.has_ended()
    assert len(node.events("NodeJoined")) == 1
    resident = resident_bytes(node.pid)
    print(f"{node.name} holds {resident / 1e6:.0f} MB")
    assert resident < MOST_NODE_BYTES


LOG_BYTES = 100_000
FLOODS = {"megabytes": 1}


async def test_of_a_producer_with_a_limited_log_each_attempt_keeps_so_much(
    cluster: Cluster, connection: Connection, database: str
) -> None:
    cluster.start("a", app=APP)
    role = f"floods_{urlsplit(database).path[1:]}"
    limits = {"queues": ["*"], "handlers": ["*"], "largest_log": LOG_BYTES}
    step = {"name": "s", "handler": "py:floods.thread", "args": FLOODS}
    ways = [
        *(f"SELECT pgcron.enqueue('py:floods.{kind}', $1)" for kind in KINDS),
        "SELECT pgcron.enqueue('py:floods.async', $1, unique_key => 'k')",
        "SELECT pgcron.enqueue('py:floods.async', $1, concurrency_key => current_user || '/k')",
        """SELECT (pgcron.enqueue_many(jsonb_build_array(
             jsonb_build_object('handler', 'py:floods.async', 'args', $1::jsonb))))[1]""",
        "SELECT pgcron.enqueue('workflow:w', $1)",
    ]

    async def floods() -> list[tuple[int, int, str | None]]:
        """Of each run: its lines and their bytes, line ends included, and the last of them."""
        runs = [await connection.fetchval(way, json.dumps(FLOODS)) for way in ways]
        await connection.execute("RESET ROLE")
        await ended(connection, *runs)
        runs[0] = await connection.fetchval("SELECT pgcron.retry_run($1)", runs[0])
        await ended(connection, runs[0])
        rows = await connection.fetch(
            "SELECT count(*), sum(octet_length(line) + 1), max(line) FILTER (WHERE stream = 'log')"
            " FROM pgcron.log JOIN pgcron.history h ON h.id = run_id"
            " WHERE h.id = ANY($1) OR h.parent_run = $2 GROUP BY run_id",
            *(runs, runs[-1]),
        )
        return [tuple(row) for row in rows]

    await connection.execute("SELECT pgcron.put_workflow('w', $1)", json.dumps({"steps": [step]}))
    await connection.execute(f"CREATE ROLE {role}; {granting('producer', role, **limits)}")
    try:
        await connection.execute(f"SET ROLE {role}")
        with pytest.raises(asyncpg.PostgresError, match="by INSERT"):
            await connection.execute("INSERT INTO pgcron.run (handler) VALUES ('py:x')")
        kept = LOG_BYTES // 1024
        said = (
            f"{1024 - kept} more lines were dropped: its producer may log {LOG_BYTES} bytes an"
            " attempt"
        )
        assert await floods() == [(kept + 1, kept * 1024 + len(said) + 1, said)] * len(ways)
        assert await floods() == [(1024, 1 << 20, None)] * len(ways)
    finally:
        await connection.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_survives_what_python_handlers_do(
    cluster: Cluster, connection: Connection, tmp_path: Path, kind: str
) -> None:
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    long = {"seconds": SECONDS}
    args: dict[str, dict[str, Any]] = {
        "floods": {"megabytes": MEGABYTES},
        "floods_a_line": {"megabytes": MEGABYTES},
        "leaves_a_daemon": {"path": str(tmp_path / "daemon")},
        "blocks": long,
        "spins": long,
        "fills_the_disk": {"path": str(tmp_path / "filled")},
    }
    expected: Expected = {
        f"py:{name}.{kind}": ("succeeded", None)
        for name in ("floods", "floods_a_line", "leaves_a_daemon", "blocks", "spins")
    } | {
        f"py:returns_no_json.{kind}": ("dead", "InvalidResult"),
        f"py:leaves_the_interpreter.{kind}": ("dead", "SystemExit"),
        f"py:interrupts.{kind}": ("dead", "KeyboardInterrupt"),
        f"py:raises_what_nobody_catches.{kind}": ("dead", "Unheard"),
        f"py:recurses.{kind}": ("dead", "RecursionError"),
        f"py:finds_the_disk_full.{kind}": ("dead", "OSError"),
    }
    if kind == "process":
        expected |= {
            "py:ends_its_process": ("dead", "ExitStatus"),
            "py:eats": ("dead", "MemoryError"),
            "py:fills_the_disk": ("dead", "OSError"),
        }
    async with bystanders(cluster, connection):
        rows = await misbehave(connection, expected, args)
        # By itself: output of the others would go where its pipes were.
        await misbehave(connection, {f"py:closes_its_pipes.{kind}": ("succeeded", None)}, {})
    still_the_same(node)
    lines = await connection.fetch(
        "SELECT line FROM pgcron.log WHERE run_id = $1 ORDER BY sequence",
        rows[f"py:floods.{kind}"]["id"],
    )
    assert len(lines) == MAX_LINES + 1
    assert f"{MEGABYTES * 1024 - MAX_LINES} more lines were dropped" in lines[-1]["line"]
    daemon = int((tmp_path / "daemon").read_text())
    if kind == "process":
        assert is_gone(daemon)
    else:  # nobody knows whose it is; it must not hold the lock of the node that is gone
        node.stop()
        assert node.exit_code() == 0
        again = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
        assert not again.events("NodeHasATwin")
        send(daemon, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_that_a_handler_forks_and_lets_return_is_no_second_node(
    cluster: Cluster, connection: Connection, tmp_path: Path, kind: str
) -> None:
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    await connection.execute("CREATE TABLE public.effect (run bigint)")
    paths = [tmp_path / str(number) for number in range(6)]
    async with bystanders(cluster, connection):
        runs = []
        for path in paths[:4]:
            runs += await enqueue(connection, f"py:returns_twice.{kind}", args={"path": str(path)})
        runs += await enqueue(connection, "py:forks_and_waits", args={"path": str(paths[4])})
        runs += await enqueue(
            connection, "py:forks_in_a_transaction", args={"path": str(paths[5])},
            delivery="transactional",
        )  # fmt: skip
        rows = await ended(connection, *runs)
        copies = [int(path.read_text()) for path in paths]
        await until("no copy lives", lambda: all(map(is_gone, copies)))
    reported = [(row["outcome"], row["attempt"], row["result"]) for row in rows]
    assert reported == [("succeeded", 1, '"the handler"')] * 4 + [("succeeded", 1, None)] * 2
    assert await connection.fetchval("SELECT count(*) FROM public.effect") == 1
    still_the_same(node)
    assert not node.events("RunFenced")


async def test_a_node_survives_what_programs_do(
    cluster: Cluster, connection: Connection, tmp_path: Path
) -> None:
    _offer_programs(cluster)
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    daemon, filled = tmp_path / "daemon", tmp_path / "filled"
    expected: Expected = {
        "shell:floods": ("succeeded", None),
        "shell:leaves_a_daemon": ("succeeded", None),
        "shell:closes_its_pipes": ("succeeded", None),
        "shell:fills_the_disk": ("dead", "ExitStatus"),
    }
    args: dict[str, dict[str, Any]] = {
        "floods": {"arg": MEGABYTES},
        "leaves_a_daemon": {"arg": str(daemon)},
        "fills_the_disk": {"arg": str(filled)},
    }
    async with bystanders(cluster, connection):
        await misbehave(connection, expected, args)
        await misbehave(connection, {"shell:kills_its_supervisor": ("dead", "SupervisorLost")}, {})
        await misbehave(connection, {"shell:closes_its_pipes": ("succeeded", None)}, {})
    still_the_same(node)
    assert is_gone(int(daemon.read_text()))
    assert filled.stat().st_size <= 1 << 20


async def test_who_kills_its_supervisor_or_siblings_harms_only_their_runs(
    cluster: Cluster, connection: Connection, tmp_path: Path
) -> None:
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    async with bystanders(cluster, connection):
        await misbehave(connection, {"py:kills_its_supervisor": ("dead", "SupervisorLost")}, {})
        victim = await _running(connection, "py:unresponsive", tmp_path / "sibling")
        await misbehave(connection, {"py:kills_its_siblings": ("succeeded", None)}, {})
        [row] = await ended(connection, victim)
    assert await _reported(connection, row) == ("dead", "KilledBySignal")
    still_the_same(node)


@pytest.mark.long
async def test_who_kills_the_supervisors_of_its_node_harms_only_their_runs(
    cluster: Cluster, connection: Connection, tmp_path: Path
) -> None:
    _offer_programs(cluster)
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    async with bystanders(cluster, connection):
        isolated = await _running(connection, "py:unresponsive", tmp_path / "isolated")
        program = await _running(connection, "shell:unresponsive", tmp_path / "program")
        await misbehave(connection, {"py:kills_the_children_of_its_node": ("succeeded", None)}, {})
        rows = await ended(connection, isolated, program)
        assert all(
            is_gone(int(path.read_text())) for path in (tmp_path / "isolated", tmp_path / "program")
        )
        await misbehave(connection, {"py:returns_no_json.process": ("dead", "InvalidResult")}, {})
    assert {await _reported(connection, row) for row in rows} == {("dead", "SupervisorLost")}
    still_the_same(node)


@pytest.mark.long
async def test_who_does_not_hear_a_cancel_is_killed_where_that_is_possible(
    cluster: Cluster, connection: Connection, tmp_path: Path
) -> None:
    _offer_programs(cluster)
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    runs = {
        name: await _running(connection, name, tmp_path / name)
        for name in ("py:unresponsive", "shell:unresponsive", "py:goes_on")
    }
    async with bystanders(cluster, connection):
        for run in runs.values():
            await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", run)
        rows = {row["id"]: row for row in await ended(connection, *runs.values())}
    still_the_same(node)
    outcomes = {name: rows[run]["outcome"] for name, run in runs.items()}
    # Who went on and returned has succeeded: that is what happened.
    assert outcomes == {
        "py:unresponsive": "cancelled", "shell:unresponsive": "cancelled",
        "py:goes_on": "succeeded",
    }  # fmt: skip
    assert all(
        is_gone(int((tmp_path / name).read_text()))
        for name in ("py:unresponsive", "shell:unresponsive")
    )


@pytest.mark.parametrize("end", ["killed", "frozen"])
async def test_processes_of_handlers_do_not_outlive_their_node(
    cluster: Cluster, connection: Connection, tmp_path: Path, end: str
) -> None:
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    run = await _running(connection, "py:unresponsive", tmp_path / "pid", max_attempts=2)
    pid = int((tmp_path / "pid").read_text())
    if end == "killed":
        node.kill9()
    else:
        node.pause()
    await until("its process is gone", lambda: is_gone(pid), deadline=TTL_SECONDS + 10)
    state = await connection.fetchval("SELECT state FROM pgcron.run WHERE id = $1", run)
    assert state == "running"  # nobody else could have begun it before that


async def test_a_node_works_while_its_disk_takes_nothing(
    cluster: Cluster, connection: Connection
) -> None:
    _offer_programs(cluster)
    node = cluster.start("a", app=APP, lease_ttl=f"{TTL_SECONDS}s")
    _, most = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (0, most))  # neither its log nor args files
    async with bystanders(cluster, connection):
        expected: Expected = {
            "py:returns_no_json.thread": ("dead", "InvalidResult"),
            "py:returns_no_json.process": ("dead", "InvalidResult"),
            "shell:closes_its_pipes": ("dead", "CouldNotStart"),
        }
        await misbehave(connection, expected, {})
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (most, most))
        await misbehave(connection, {"shell:closes_its_pipes": ("succeeded", None)}, {})
    still_the_same(node)


async def _running(connection: Connection, handler: str, path: Path, max_attempts: int = 1) -> int:
    """A run that has begun, and has written its process id there."""
    args = {"arg" if handler.startswith("shell") else "path": str(path)}
    [run] = await enqueue(connection, handler, args=args, max_attempts=max_attempts)
    await until(f"{handler} runs", lambda: readable_pid(path))
    return run


def _offer_programs(cluster: Cluster) -> None:
    program = Path(__file__).with_name("hostile_program.py")
    user = pwd.getpwuid(os.geteuid()).pw_name
    with cluster.configuration.open("a") as file:
        for name, takes in {
            "floods": True, "leaves_a_daemon": True, "closes_its_pipes": False,
            "fills_the_disk": True, "kills_its_supervisor": False, "unresponsive": True,
        }.items():  # fmt: skip
            argument = ', "{arg}"' if takes else ""
            file.write(
                f'[shell.{name}]\nargv = ["{sys.executable}", "-I", "-S", "{program}", '
                f'"{name}"{argument}]\nuser = "{user}"\ngrace = "1s"\n'
                + ('placeholders = { arg = ".+" }\n' if takes else "")
            )
