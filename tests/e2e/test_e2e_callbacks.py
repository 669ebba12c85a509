"""Services that call back, on nodes as an operator starts them."""

from __future__ import annotations

import json

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.executors.http.callbacks import caller, served
from tests.executors.http.service import Answer, Service
from tests.waiting import until

TABLE = """
[http.call]
url = "{url}/"
allow_private = true
completion = "callback"
"""


def offer(cluster: Cluster, service: Service, public_url: str) -> None:
    web = f'[web]\npublic_url = "{public_url}"\n'
    file = cluster.configuration
    file.write_text(file.read_text() + web + TABLE.format(url=service.url))


async def test_a_run_ends_as_its_service_says_when_it_calls_back(
    cluster: Cluster, connection: Connection, database: str
) -> None:
    async with served(database) as url:
        with Service({"/": Answer(202)}) as service:
            offer(cluster, service, url)
            cluster.start("a")
            [run] = await enqueue(connection, "http:call")
            calling = await caller(service)
            await calling.say("running", progress={"done": 1, "total": 2}, log="half")
            await until("it is shown", lambda: progress_of(connection, run))
            said = await calling.say("succeeded", result={"rows": 5})
            [row] = await ended(connection, run, deadline=60)
            again = await calling.say("succeeded", result={"rows": 5})

    assert (said.status_code, again.status_code) == (200, 200)
    assert (row["outcome"], row["attempt"], row["node"]) == ("succeeded", 1, "a")
    assert json.loads(row["result"]) == {"rows": 5}
    assert len(service.requests) == 1


async def progress_of(connection: Connection, run: int) -> bool:
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pgcron.progress WHERE run_id = $1)", run
    )
    return found
