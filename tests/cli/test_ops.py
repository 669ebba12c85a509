"""Probes and metrics for other machines, and nothing else at their address."""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.cli.test_web import Start
from tests.cli.test_web import start as start  # a fixture
from tests.product.web import ROUTES
from tests.waiting import wait_for

PROBES = ("/livez", "/readyz", "/startupz", "/metrics")
EVERYWHERE = "0.0.0.0:0"
JOBS = """
from pgcron_ha import App

app = App()


@app.handler()
async def charge(card):
    return {"charged": card}
"""


def ask(port: int, method: str, path: str) -> tuple[int, str]:
    """As a program on another machine: not at 127.0.0.1, and with that machine's name for us."""
    connection = http.client.HTTPConnection("127.0.0.2", port, timeout=30)
    connection.request(method, path, headers={"Host": "node-7.jobs.example:9000"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.mark.parametrize(
    "command",
    [
        ("node", "--ops", EVERYWHERE),
        ("node", "--web", "127.0.0.1:0", "--ops", EVERYWHERE),
        ("web", "--listen", "127.0.0.1:0", "--ops", EVERYWHERE),
    ],
    ids=["node", "node with pages", "web"],
)
def test_another_machine_reaches_probes_and_metrics_and_no_page(
    start: Start, command: tuple[str, ...]
) -> None:
    process, address = start(*command, says="probes and metrics at")
    port = urlsplit(address).port
    assert port is not None

    wait_for("it is ready", lambda: ask(port, "GET", "/readyz") == (200, "ok\n"))
    for path in PROBES:
        assert ask(port, "GET", path)[0] == 200, path
        assert ask(port, "HEAD", path) == (200, ""), path
        assert ask(port, "POST", path)[0] == 405, path
    others = {route.path for route in ROUTES} - {*PROBES}
    paths = [re.sub(r"\{\w+\}", "1", path) for path in others]
    for path in [*paths, "/livez/", "//livez", "/nowhere", "/metrics/../", "/%2e%2e/runs"]:
        for method in ("GET", "POST"):
            answer = ask(port, method, path)
            assert answer == (404, "Only probes and metrics are here.\n"), (method, path)
    process.terminate()
    assert process.wait(30) == 0


def test_a_setting_is_enough(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCRON_HA_OPS_LISTEN", "127.0.0.1:0")

    _, address = start("node", says="probes and metrics at")

    wait_for("it is started", lambda: httpx.get(address + "startupz").text == "ok\n")


def test_a_server_that_may_be_reached_unencrypted_is_named_at_the_start(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_WEB_WRITE_DSN", "postgresql://ann:hush@db.example/shop")
    for command in (("node", "--ops", "127.0.0.1:0"), ("web", "--listen", "127.0.0.1:0")):
        start(*command, says="metrics at" if command[0] == "node" else "serving")

        printed = (tmp_path / "output").read_text()
        assert "web.write_dsn does not ask for TLS to db.example" in printed, command
        assert "hush" not in printed


def test_metrics_of_a_node_have_no_args_and_no_ids(
    start: Start, database: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    with psycopg.connect(database) as connection:
        connection.execute("SELECT setval('pgcron.run_id_seq', 987650000)")
        connection.execute(
            "SELECT pgcron.enqueue('py:charge', '{\"card\": \"visa4242\"}', tags => '{secret-tag}',"
            " idempotency_key => 'secret-key', concurrency_key => 'secret-customer')"
        )
    _, address = start(
        *("node", "--name", "n1", "--app", "jobs:app", "--ops", EVERYWHERE), says="metrics at"
    )
    port = urlsplit(address).port
    assert port is not None

    ended = 'pgcron_runs_finished_total{handler="py:charge",outcome="succeeded",queue="default"} 1'
    wait_for("it has run", lambda: ended in ask(port, "GET", "/metrics")[1])

    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-"
    text = ask(port, "GET", "/metrics")[1]
    assert re.findall(rf"visa4242|secret|98765\d{{4}}|{uuid}", text) == []
