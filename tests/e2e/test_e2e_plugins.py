"""An executor of another package, installed beside a real node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.executors.distribution import install, install_the_documented_one


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages that the nodes see."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


async def test_a_node_executes_what_another_package_brings(
    cluster: Cluster, connection: Connection, packages: Path, tmp_path: Path
) -> None:
    install_the_documented_one(packages)
    cluster.start("without")  # the package is installed, and not asked for
    file = cluster.configuration
    file.write_text(f'{file.read_text()}\n[touch.here]\ndirectory = "{tmp_path}"\n')
    cluster.start("with")
    runs = await enqueue(connection, "touch:here", 3, args={"name": "made"})
    rows = await ended(connection, *runs)

    assert {(row["outcome"], row["node"]) for row in rows} == {("succeeded", "with")}
    assert json.loads(rows[0]["result"]) == {"made": "made"}
    assert (tmp_path / "made").exists()
    [line] = await connection.fetch("SELECT line FROM pgcron.log WHERE run_id = $1", runs[0])
    assert line["line"] == "made made"


async def test_a_node_whose_package_is_broken_says_so_and_does_not_start(
    cluster: Cluster, packages: Path
) -> None:
    install(packages, "pgcron-broken", "broken", "pgcron_broken:Nothing")
    broken = cluster.spawn("broken", executors="broken")
    missing = cluster.spawn("missing", executors="ftp")

    assert await asyncio.to_thread(broken.exit_code) == 1
    assert "the executor 'broken' of pgcron-broken 1.0 can't be used" in broken.output()
    assert await asyncio.to_thread(missing.exit_code) == 1
    assert "no installed package executes handlers of the kind 'ftp'" in missing.output()
