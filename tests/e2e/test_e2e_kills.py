"""``runs kill`` of work that would go on for long after a cancel. The node has one slot, and the
run that follows tells whether it got it too early.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, Row, ended, enqueue
from tests.e2e.nodes import Cluster, is_gone
from tests.executors.http.service import Answer, Service, hang
from tests.waiting import slowness, until

AT_ONCE_SECONDS = 8.0
"""Less than any grace here."""

ALONE: dict[str, Any] = {"slots": 1, "lease_ttl": "30s"}
SERVICE = """
[http.call]
url = "{url}/{{where}}"
placeholders = {{ where = "[a-z]+" }}
allow_private = true
"""
PROFILES = """
[sql.deaf]
dsn = "env:PGCRON_HA_DSN"
grace = "60s"
statement = '''DO $$ BEGIN
  LOOP BEGIN PERFORM pg_sleep(90); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
END $$'''

[sql.look]
dsn = "env:PGCRON_HA_DSN"
rows = true
statement = "SELECT count(*) AS others FROM pg_stat_activity WHERE query LIKE 'DO %pg_sleep(90)%'"
"""
AT_WORK = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE query LIKE 'DO %pg_sleep(90)%' AND wait_event = 'PgSleep'"
)


async def kill(cluster: Cluster, connection: Connection, run: int) -> Row:
    """Its row of history; it ended at once, by the kill."""
    answer = await asyncio.to_thread(cluster.command, "runs", "kill", str(run), "--note", "now")
    asked_at = boottime()
    assert answer.stdout == f"run {run} is ended by force where that can be\n", answer
    [row] = await ended(connection, run)
    assert boottime() - asked_at < min(25, AT_ONCE_SECONDS * slowness())
    assert (row["outcome"], row["attempt"]) == ("cancelled", 1)
    assert row["cancel_reason"].startswith("killed by ")
    assert row["cancel_reason"].endswith(": now")
    return row


async def test_a_killed_call_leaves_its_service_before_its_slot_is_free(
    cluster: Cluster, connection: Connection
) -> None:
    with Service({"/slow": hang, "/next": Answer(204)}) as service:
        with cluster.configuration.open("a") as file:
            file.write(SERVICE.format(url=service.url))
        cluster.start("a", **ALONE)
        [run] = await enqueue(connection, "http:call", args={"where": "slow"}, max_attempts=3)
        await until("it is called", lambda: service.at_work == {str(run)})
        [after] = await enqueue(connection, "http:call", args={"where": "next"})
        await kill(cluster, connection, run)
        [next_row] = await ended(connection, after)

    assert next_row["outcome"] == "succeeded"
    assert service.paths() == ["/slow", "/next"]
    assert service.most_at_once == 1


async def test_a_killed_statement_that_ignores_its_cancel_is_gone_before_its_slot_is_free(
    cluster: Cluster, connection: Connection
) -> None:
    with cluster.configuration.open("a") as file:
        file.write(PROFILES)
    cluster.start("a", **ALONE)
    [run] = await enqueue(connection, "sql:deaf", max_attempts=3)
    await until("it sleeps", lambda: connection.fetchval(AT_WORK))
    [after] = await enqueue(connection, "sql:look")
    await kill(cluster, connection, run)
    assert await connection.fetchval(AT_WORK) == 0
    [next_row] = await ended(connection, after)

    assert json.loads(next_row["result"])["rows"] == [{"others": 0}]


async def test_a_killed_process_of_a_handler_is_gone_before_its_slot_is_free(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    node = cluster.start("a", **ALONE)
    [run] = await enqueue(
        connection, "py:unresponsive_isolated", args={"seconds": 90}, max_attempts=3
    )
    await until("it is at work", lambda: evidence.count("tick") > 2)
    pid = evidence.events("start", run)[0].pid
    [after] = await enqueue(connection, "py:work")
    await kill(cluster, connection, run)
    assert is_gone(pid)
    [next_row] = await ended(connection, after)

    assert pid != node.pid
    assert next_row["outcome"] == "succeeded"
    assert evidence.count("tick") == len(evidence.events("tick", run))
    assert evidence.events("start", after)[0].at > evidence.events("tick", run)[-1].at
    assert not node.events("RunIsStuck")
