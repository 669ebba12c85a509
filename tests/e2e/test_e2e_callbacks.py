"""Services that call back, on nodes as an operator starts them, and what a node's death changes."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import Any

import httpx
import pytest

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, NodeProcess
from tests.executors.http.callbacks import Caller, caller, caller_of, served
from tests.executors.http.service import Answer, Request, Service
from tests.waiting import until

TABLE = """
[http.call]
url = "{url}/"
allow_private = true
completion = "callback"
"""
ANYWHERE = ("--callbacks", "127.0.0.1:0")
# Longer leases than other tests', so that no busy machine ends one whose node lives.
CALM: dict[str, Any] = {"lease_ttl": "30s"}
MORTAL: dict[str, Any] = {"lease_ttl": "8s"}


def offer(cluster: Cluster, service: Service, public_url: str | None) -> None:
    web = "" if public_url is None else f'[web]\npublic_url = "{public_url}"\n'
    file = cluster.configuration
    file.write_text(file.read_text() + web + TABLE.format(url=service.url))


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True])
async def test_what_a_service_told_is_the_end_of_the_run_though_its_node_died(
    cluster: Cluster, connection: Connection, database: str, dies: bool
) -> None:
    async with served(database) as url:
        with Service({"/": Answer(202)}) as service:
            offer(cluster, service, url)
            node = cluster.start("a", **(MORTAL if dies else CALM))
            [run] = await enqueue(connection, "http:call")
            calling = await caller(service)
            await calling.say("running", progress={"done": 1, "total": 2}, log="half")
            await until("it is shown", lambda: progress_of(connection, run), deadline=30)
            if dies:  # frozen, so that it hears nothing of the callback before it is killed
                node.pause()
            said = await calling.say("succeeded", result={"rows": 5})
            if dies:
                node.kill9()
                await asyncio.to_thread(partial(cluster.start, "b", **CALM))
            [row] = await ended(connection, run, deadline=60)
            again = await calling.say("succeeded", result={"rows": 5})

    assert (said.status_code, again.status_code) == (200, 200)
    assert (row["outcome"], row["attempt"], row["node"]) == ("succeeded", 1, "a")
    assert json.loads(row["result"]) == {"rows": 5}
    assert len(service.requests) == 1


@pytest.mark.long
async def test_an_attempt_whose_node_died_takes_no_callback_and_the_next_one_does(
    cluster: Cluster, connection: Connection, database: str
) -> None:
    async with served(database) as url:
        with Service({"/": Answer(202)}) as service:
            offer(cluster, service, url)
            first = cluster.start("a", **MORTAL)
            [run] = await enqueue(connection, "http:call")
            old = await caller(service)
            first.kill9()
            await asyncio.to_thread(partial(cluster.start, "b", **CALM))
            new = await caller(service, 2, deadline=60)
            late = await old.say("succeeded", result="old")
            said = await new.say("succeeded", result="new")
            [row] = await ended(connection, run, deadline=60)

    assert (late.status_code, said.status_code) == (410, 200)
    assert (row["outcome"], json.loads(row["result"])) == ("succeeded", "new")
    assert (row["attempt"], row["node"]) == (2, "b")
    one, other = (each.headers for each in service.requests)
    assert one["idempotency-key"] == other["idempotency-key"]


async def test_a_node_does_not_start_with_callbacks_and_no_address_for_them(
    cluster: Cluster,
) -> None:
    with Service() as service:
        offer(cluster, service, None)
        node = cluster.spawn("a")
        assert await asyncio.to_thread(node.exit_code) == 1

    assert "http.call.completion: its service has no address to call back" in node.output()
    assert "web.public_url" in node.output()


@pytest.mark.long
@pytest.mark.parametrize("command", ["web", "node"])
async def test_the_address_of_a_process_takes_callbacks_with_their_token_and_shows_no_pages(
    cluster: Cluster, connection: Connection, command: str
) -> None:
    taker = (
        cluster.serve_web(*ANYWHERE)
        if command == "web"
        else cluster.spawn("taker", options=ANYWHERE, **CALM)  # it knows no destination yet
    )
    address = await until("it takes callbacks", lambda: callbacks_of(taker))
    answers: list[int] = []

    async def accept_and_call_back(
        request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(Answer(202).encoded())
        await writer.drain()
        calling = caller_of(request)
        for token in ("x" * 43, calling.token, calling.token):
            said = await Caller(calling.url, token).say("succeeded", result={"rows": 7})
            answers.append(said.status_code)

    with Service({"/": accept_and_call_back}) as service:
        offer(cluster, service, address)
        await asyncio.to_thread(partial(cluster.start, "a", **CALM))
        [run] = await enqueue(connection, "http:call")
        [row] = await ended(connection, run, deadline=60)
        await until("the service has said it twice", lambda: len(answers) == 3)
        async with httpx.AsyncClient(base_url=str(address)) as client:
            pages = [(await client.get(path)).status_code for path in ("/", "/runs", "/readyz")]

    assert answers == [401, 200, 200]
    assert (row["outcome"], row["attempt"], row["node"]) == ("succeeded", 1, "a")
    assert json.loads(row["result"]) == {"rows": 7}
    assert pages == [404, 404, 404]


def callbacks_of(taker: NodeProcess) -> str | None:
    """Where that process takes callbacks, once it has said so; without the last slash."""
    assert not taker.has_ended(), taker.output()
    found = re.search(r"taking callbacks at (http://\S+)/\n", taker.output())
    return found and found[1]


async def progress_of(connection: Connection, run: int) -> bool:
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.progress WHERE run_id = $1)", run
    )
    return found
