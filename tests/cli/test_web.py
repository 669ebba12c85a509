"""Real processes that serve: where they listen, what they refuse, and how they stop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.entering import cookies, entered
from tests.house.checkout import ROOT
from tests.waiting import wait_for

# Its run ends when the test says so.
JOBS = """
import asyncio
import pathlib
from pgcron_ha import App

app = App()


@app.handler()
async def waits():
    while not pathlib.Path("go on").exists():
        await asyncio.sleep(0.02)
"""

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start(database: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a command that serves; the process and the address it printed."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        **os.environ,
        "PGCRON_HA_DSN": database,
        "PYTHONPATH": str(ROOT),
        "PGCRON_HA_NODE_STATE_DIRECTORY": str(tmp_path / "state"),
    }

    def call(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        output = tmp_path / "output"
        with output.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pgcron_ha", *arguments],
                cwd=tmp_path,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(process)
        url = wait_for("it serves", lambda: entered(output.read_text()))
        assert url is not None
        return process, url

    yield call
    for process in started:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize(
    "command", [("web", "--listen", "127.0.0.1:0"), ("node", "--web", "127.0.0.1:0")]
)
def test_it_serves_until_it_is_told_to_stop(start: Start, command: tuple[str, ...]) -> None:
    process, url = start(*command)

    wait_for("it is ready", lambda: httpx.get(url + "readyz").text == "ok\n")
    page = httpx.get(url, cookies=cookies(url))
    process.terminate()

    assert page.status_code == 200
    assert process.wait(30) == 0


def test_a_node_shows_itself_on_its_own_pages(start: Start) -> None:
    _, url = start("node", "--name", "mirror", "--web", "127.0.0.1:0")

    assert wait_for("it is alive", lambda: "mirror" in httpx.get(url, cookies=cookies(url)).text)


@pytest.mark.long
def test_a_node_that_drains_is_not_ready_and_stays_alive_until_its_runs_have_ended(
    start: Start, database: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    process, url = start("node", "--name", "n1", "--app", "jobs:app", "--web", "127.0.0.1:0")
    wait_for("it is ready", lambda: httpx.get(url + "readyz").status_code == 200)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO pgcron.run (handler) VALUES ('py:waits')")

    def status() -> Any:
        return httpx.get(url + "statusz", cookies=cookies(url)).json()

    wait_for("it runs", lambda: status()["node"]["executing"] == 1)

    process.terminate()

    wait_for("it is not ready", lambda: httpx.get(url + "readyz").status_code == 503)
    live = httpx.get(url + "livez")
    now = status()
    metrics = httpx.get(url + "metrics", cookies=cookies(url)).text
    assert process.poll() is None
    assert (live.status_code, live.text) == (200, "ok\n")
    assert now["role"] == "node"
    assert now["node"]["is_draining"]
    assert "drains" in now["node"]["not_ready_because"]
    assert (now["node"]["executing"], len(now["node"]["held"])) == (1, 1)
    assert now["node"]["lease_seconds"] > 0
    assert "\npgcron_draining 1.0\n" in metrics
    (tmp_path / "go on").touch()
    assert process.wait(30) == 0
    with psycopg.connect(database) as connection:
        outcomes = connection.execute("SELECT outcome, attempt FROM pgcron.history").fetchall()
    assert outcomes == [("succeeded", 1)]


@pytest.mark.parametrize("address", ["0.0.0.0:8420", "[::]:8420", "10.1.2.3:80"])
def test_it_refuses_to_be_reached_from_elsewhere(cli: Cli, address: str) -> None:
    answer = cli("web", "--listen", address)

    assert answer.code == 1
    assert f"the web can't listen on '{address}'" in answer.err
    assert "Without login" in answer.err


def test_a_port_in_use_and_a_misspelt_address_are_said(cli: Cli, start: Start) -> None:
    _, url = start("web", "--listen", "127.0.0.1:0")
    taken = cli("web", "--listen", url.removeprefix("http://").rstrip("/"))
    misspelt = cli("web", "--listen", "8420")

    assert taken.code == misspelt.code == 1
    assert "Address already in use" in taken.err
    assert "an address HOST:PORT" in misspelt.err


def test_no_file_is_taken_for_a_socket(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious")

    refused = cli("web", "--listen", f"unix:{kept}")

    assert refused.code == 1
    assert "Address already in use" in refused.err
    assert kept.read_text() == "precious"
