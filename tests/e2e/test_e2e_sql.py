"""SQL profiles of a real node."""

from __future__ import annotations

import signal
from datetime import timedelta

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, send
from tests.waiting import until

PROFILES = """
[sql.count]
dsn = "env:PGCRON_HA_DSN"
statement = "SELECT count(*) AS runs, :word::text AS word FROM pgcron.run"
rows = true

[sql.move]
transactional = true
statement = '''
  UPDATE public.account SET balance = balance - :amount WHERE id = 1;
  UPDATE public.account SET balance = balance + :amount WHERE id = 2;
  INSERT INTO public.moved VALUES (:pgcron_run_id);
'''

[sql.sleep]
dsn = "env:PGCRON_HA_DSN"
statement = "SELECT pg_sleep(60)"
"""


async def test_a_node_offers_its_profiles(cluster: Cluster, connection: Connection) -> None:
    with cluster.configuration.open("a") as file:
        file.write(PROFILES)
    await connection.execute("""
        CREATE TABLE public.account (id int PRIMARY KEY, balance int);
        INSERT INTO public.account VALUES (1, 100), (2, 100);
        CREATE TABLE public.moved (run bigint);
    """)
    node = cluster.start("a")
    [counted] = await enqueue(connection, "sql:count", args={"word": "x'y"})
    moved = await enqueue(
        connection, "sql:move", 20, args={"amount": 2}, delivery="transactional", max_attempts=50
    )
    [late] = await enqueue(connection, "sql:sleep", timeout=timedelta(seconds=1), max_attempts=1)

    rows = await ended(connection, counted, *moved, late)

    results = {row["id"]: row for row in rows}
    assert '"word": "x\'y"' in results[counted]["result"]
    assert {results[run]["outcome"] for run in moved} == {"succeeded"}
    assert (results[late]["outcome"], results[late]["attempt"]) == ("dead", 1)
    balances = await connection.fetch("SELECT balance FROM public.account ORDER BY id")
    assert [row["balance"] for row in balances] == [60, 140]
    assert await connection.fetchval("SELECT count(DISTINCT run) FROM public.moved") == 20
    lines = await connection.fetch(
        "SELECT line FROM pgcron.log WHERE run_id = $1 ORDER BY sequence", moved[0]
    )
    assert [row["line"] for row in lines] == [
        "statement 1 of 3: UPDATE 1",
        "statement 2 of 3: UPDATE 1",
        "statement 3 of 3: INSERT 0 1",
    ]
    assert any("a superuser" in event["warning"] for event in node.events("ProfileIsRisky"))


async def test_the_statement_of_a_node_that_dies_ends_soon(
    cluster: Cluster, connection: Connection
) -> None:
    with cluster.configuration.open("a") as file:
        file.write(PROFILES)
    node = cluster.start("a")
    await enqueue(connection, "sql:sleep")
    sleeping = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        " AND datname = current_database()"
    )
    await until("it sleeps", lambda: connection.fetchval(sleeping))

    send(node.pid, signal.SIGKILL)

    async def nobody_sleeps() -> bool:
        return not await connection.fetchval(sleeping)

    await until("the server noticed", nobody_sleeps, deadline=10)
