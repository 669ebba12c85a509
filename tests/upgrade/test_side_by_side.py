"""Nodes of this version and of the one after it, on the schema of either, and while it changes."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import httpx
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster, NodeProcess
from tests.entering import cookies, entered
from tests.product.db import NEWEST
from tests.upgrade.conftest import Pgcron
from tests.upgrade.later import REVISION, VERSION
from tests.upgrade.workload import Workload
from tests.waiting import until, wait_for

JOBS = "tests.upgrade.jobs:app"
COMMANDS = ("status", "runs list", "schedules show each")
PAGES = ("/", "/schedules", "/schedules/each", "/runs", "/nodes", "/queues", "/dead", "/metrics")
LEASE_SECONDS = 3.0
LOCK_SECONDS = 2.0
"""What a migration makes others wait at most."""


def start(cluster: Cluster, name: str, package: Path | None = None) -> NodeProcess:
    """A node of that package, or of the checkout's."""
    cluster.package = package
    try:
        return cluster.start(name, app=JOBS, slots=8)
    finally:
        cluster.package = None


def troubles(*nodes: NodeProcess) -> list[object]:
    """What their services stumbled over."""
    return [event for node in nodes for event in node.events("ServiceFailed")]


async def answers(cluster: Cluster, *commands: str) -> list[subprocess.CompletedProcess[str]]:
    """What `pgcron-ha` says to each of them, at once."""
    asked = (asyncio.to_thread(cluster.command, *command.split()) for command in commands)
    return await asyncio.gather(*asked)


@pytest.mark.long
async def test_either_takes_over_from_the_other_on_the_newest_schema(
    database: str, connection: Connection, later: Path, pgcron: Pgcron, tmp_path: Path
) -> None:
    pgcron("migrate")
    with Cluster(database, tmp_path) as cluster:
        old, new = start(cluster, "old"), start(cluster, "new", later)
        versions = await connection.fetch("SELECT name, version FROM pgcron.nodes ORDER BY name")
        assert versions[0]["version"] == VERSION != versions[1]["version"]
        workload = Workload(cluster, connection)
        await workload.begin()
        await workload.everybody_works(old.pid, new.pid)
        await workload.steer()

        new.kill9()
        await workload.all_end()
        again = start(cluster, "new", later)
        await workload.everybody_works(old.pid, again.pid)
        old.kill9()
        await workload.all_end()

        await workload.end()
        await workload.judge()
        assert troubles(old, new, again) == []


async def test_a_version_works_with_the_schema_of_the_one_before(
    database: str, connection: Connection, later: Path, tmp_path: Path
) -> None:
    with Cluster(database, tmp_path) as cluster:
        old, new = start(cluster, "old"), start(cluster, "new", later)
        cluster.package = later
        web = cluster.serve_web()
        workload = Workload(cluster, connection)
        await workload.begin()
        await workload.everybody_works(old.pid, new.pid)
        await workload.steer()

        *reported, doctor = await answers(cluster, *COMMANDS, "doctor")
        # With exit code 1 and nothing on stderr `status` says what fails.
        assert [a.stderr for a in reported if a.returncode and a.stderr] == []
        assert f"schema         'pgcron' is at revision {NEWEST}" in doctor.stdout
        address = wait_for("pages are served", lambda: entered(web.output()))
        assert address is not None
        async with httpx.AsyncClient(base_url=address, cookies=cookies(address)) as client:
            for page in PAGES:
                assert (await client.get(page)).status_code == 200, page

        await workload.end()
        await workload.judge()
        assert troubles(old, new) == []


@pytest.mark.long
async def test_a_migration_under_load_stops_nobody(
    database: str, connection: Connection, later: Path, pgcron: Pgcron, tmp_path: Path
) -> None:
    with Cluster(database, tmp_path) as cluster:
        old, new = start(cluster, "old"), start(cluster, "new", later)
        workload = Workload(cluster, connection)
        await workload.begin()
        await workload.everybody_works(old.pid, new.pid, more=20)

        began = boottime()
        await asyncio.to_thread(pgcron, "migrate")
        counted = "SELECT sum(beats) > 0 FROM pgcron.node"
        await until("the new node follows", lambda: connection.fetchval(counted))
        move = (began, boottime())
        await workload.everybody_works(old.pid, new.pid, more=20)

        await workload.end()
        await workload.judge()
        moving, otherwise = workload.longest_gaps([move])
        print(f"longest time in which no run began: {moving:.3f} s, otherwise {otherwise:.3f} s")
        # A busy machine makes them wait by itself.
        assert moving < LOCK_SECONDS + otherwise
        assert troubles(old, new) == []
        for node in (old, new):
            assert not node.has_ended()
            assert len(node.events("NodeJoined")) == 1, "it kept its lease"


@pytest.mark.long
async def test_the_version_before_says_that_it_works_with_the_newest_schema(
    database: str, pgcron: Pgcron, tmp_path: Path
) -> None:
    pgcron("migrate")
    with Cluster(database, tmp_path) as cluster:
        reported = f"schema 'pgcron' is at revision {REVISION}; this program brings {NEWEST}"
        for answer in await answers(cluster, "migrate --check", "migrate", "runs list"):
            assert (answer.returncode, answer.stderr) == (0, "")
            assert answer.stdout in (f"{reported}, and works with it\n", "no runs\n")
