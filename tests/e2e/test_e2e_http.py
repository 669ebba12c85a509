"""Runs that call a service, on nodes as an operator starts them."""

from __future__ import annotations

import asyncio
import json

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.executors.http.service import JSON, Answer, Service, hang
from tests.waiting import until

TABLES = """
[http.{name}]
url = "{url}/{name}/{{day}}"
placeholders = {{ day = "[a-z]+" }}
allow_private = true
auth = {{ scheme = "bearer", secret = "file:{secret}" }}
"""


def offer(cluster: Cluster, service: Service, *names: str) -> None:
    secret = cluster.folder / "token"
    secret.write_text("s3cret-token\n")
    tables = [TABLES.format(name=name, url=service.url, secret=secret) for name in names]
    file = cluster.configuration
    file.write_text(file.read_text() + "".join(tables))


async def test_a_service_is_called_and_its_answers_decide(
    cluster: Cluster, connection: Connection
) -> None:
    good = Answer(200, b'{"sent": 5}', {"Content-Type": JSON})
    text = {"Content-Type": "text/plain"}
    with Service(
        {
            "/good/monday": [Answer(503, b"later", {**text, "Retry-After": "0"}), good],
            "/bad/monday": Answer(422, b"no such month, s3cret-token", text),
        }
    ) as service:
        offer(cluster, service, "good", "bad")
        cluster.start("a")
        args = {"day": "monday"}
        policy = {"max_attempts": 3, "retry": '{"base": 3600}'}
        [good_run] = await enqueue(connection, "http:good", args=args, **policy)
        [bad_run] = await enqueue(connection, "http:bad", args=args, **policy)
        rows = {row["id"]: row for row in await ended(connection, good_run, bad_run)}

    assert (rows[good_run]["outcome"], rows[good_run]["attempt"]) == ("succeeded", 2)
    assert json.loads(rows[good_run]["result"]) == {"sent": 5}
    assert (rows[bad_run]["outcome"], rows[bad_run]["attempt"]) == ("dead", 1)
    assert "answered 422" in rows[bad_run]["error"]
    [attempt] = await connection.fetch("SELECT * FROM pgcron.attempt WHERE run_id = $1", bad_run)
    assert attempt["traceback"] == "no such month, ***"
    assert {each.headers["authorization"] for each in service.requests} == {"Bearer s3cret-token"}
    assert "s3cret-token" not in cluster.nodes[0].output()


async def test_a_request_of_a_node_that_died_is_sent_again_with_its_key_and_a_higher_fence(
    cluster: Cluster, connection: Connection
) -> None:
    with Service({"/call/monday": hang}) as service:
        offer(cluster, service, "call")
        first = cluster.start("a")
        [run] = await enqueue(connection, "http:call", args={"day": "monday"})
        await until("it is called", lambda: len(service.requests) == 1, deadline=30)
        first.kill9()
        service.routes["/call/monday"] = Answer(204)
        cluster.start("b")
        [row] = await ended(connection, run, deadline=60)

    assert (row["outcome"], row["node"]) == ("succeeded", "b")
    # On a starved machine the second node, too, may lose its lease and be asked again.
    lost, *_, again = (each.headers for each in service.requests)
    assert lost["idempotency-key"] == again["idempotency-key"]
    assert int(lost["pgcron-fence"]) < int(again["pgcron-fence"])
    assert lost["pgcron-token"] != again["pgcron-token"]
    assert lost["traceparent"][:35] == again["traceparent"][:35]


async def test_a_call_is_cancelled_and_a_node_stops_in_the_middle_of_one(
    cluster: Cluster, connection: Connection
) -> None:
    with Service({"/call/monday": hang}) as service:
        offer(cluster, service, "call")
        node = cluster.start("a", grace="0s")
        runs = await enqueue(connection, "http:call", 2, args={"day": "monday"})
        await until("both are called", lambda: len(service.at_work) == 2)
        await connection.execute("SELECT pgcron.cancel_run($1, 'not needed')", runs[0])
        [row] = await ended(connection, runs[0])
        await until("one is left", lambda: service.at_work == {str(runs[1])})
        node.stop()
        assert await asyncio.to_thread(node.exit_code) == 0
        await until("none is left", lambda: service.at_work == set())

    assert row["outcome"] == "cancelled"
