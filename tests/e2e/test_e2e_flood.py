"""Whoever reaches the address of callbacks keeps nobody out: not by silence, nor by any number of
requests, nor from the address that honest callbacks come from.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from time import monotonic

import httpx
import pytest

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.waiting import slowness, until
from tests.web.test_callbacks import TOKEN, waiting

CALLBACKS = 60
SLOW_SECONDS = 1.0
"""On a quiet machine; one of them may take longer."""


@pytest.mark.long
async def test_a_flood_keeps_out_no_callback_no_probe_and_no_run(
    cluster: Cluster, connection: Connection
) -> None:
    run = await waiting(connection, TOKEN, lease_ttl=300)
    listens = ("--callbacks", "127.0.0.1:0", "--web", "127.0.0.1:0")
    with few_descriptors():
        node = cluster.spawn("a", options=listens, lease_ttl="30s")
    await until("the node has joined", node.has_joined)
    found = re.search(r"taking callbacks at http://127.0.0.1:(\d+)/\n", node.output())
    pages = re.search(r"serving (http://\S+)/\n", node.output())
    assert found is not None
    assert pages is not None
    path = f"http://127.0.0.1:{found[1]}/callback/runs/{run['id']}/{run['fence']}"

    with flood(found[1]):
        runs = await enqueue(connection, "shell:program", 5, {"seconds": "0.1", "manner": "good"})
        seconds = [await say(path) for _ in range(CALLBACKS)]
        probes = [(await ask(f"{pages[1]}/livez")).status_code for _ in range(3)]
        rows = await ended(connection, *runs)

    assert sorted(seconds)[-2] < SLOW_SECONDS * slowness(), sorted(seconds)[-5:]
    assert probes == [200] * 3
    assert {row["outcome"] for row in rows} == {"succeeded"}, [row["error"] for row in rows]


async def say(path: str) -> float:
    """One honest callback that the run goes on; how long it took."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(timeout=20, verify=False, trust_env=False) as client:
        began = monotonic()
        answer = await client.post(path, json={"status": "running"}, headers=bearer)
    assert answer.status_code == 200, answer.text
    return monotonic() - began


async def ask(url: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as client:
        return await client.get(url)


@contextmanager
def few_descriptors() -> Iterator[None]:
    """What begins inside may open 1,024 files, as usual, unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def flood(port: str) -> Iterator[None]:
    program = str(Path(__file__).with_name("flood.py"))
    with Popen([sys.executable, program, port], stdout=PIPE) as flooding:
        try:
            assert flooding.stdout is not None
            assert flooding.stdout.readline() == b"flooding\n"
            yield
        finally:
            flooding.kill()
