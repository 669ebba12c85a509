"""Nodes as a role that owns the schema and nothing else, and as one that owns nothing at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.db import control, retention
from tests.e2e.nodes import Cluster
from tests.product.cli import statements
from tests.product.client import prove
from tests.product.db import as_sql
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.waiting import until

ROLE = "jobs_without_more"


async def test_a_node_needs_neither_superuser_nor_create_on_the_database(
    server: ThrowAwayServer, empty_database: str, tmp_path: Path
) -> None:
    dba = await asyncpg.connect(empty_database)
    name = await dba.fetchval("SELECT current_database()")
    await dba.execute(f"DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE} LOGIN PASSWORD 'x'")
    await dba.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    await dba.execute(f"GRANT CONNECT ON DATABASE {name} TO {ROLE}")
    await dba.execute(f"CREATE SCHEMA pgcron AUTHORIZATION {ROLE}; SET ROLE {ROLE}")
    await dba.execute(as_sql())
    await dba.execute("RESET ROLE")
    # What somebody else may put before everything on the role's path.
    await dba.execute(f"""
        CREATE SCHEMA {ROLE};
        CREATE FUNCTION {ROLE}.now() RETURNS timestamptz
          LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$;
        CREATE FUNCTION {ROLE}.count(bigint) RETURNS bigint LANGUAGE sql AS $$SELECT 1/0::bigint$$;
        CREATE TABLE {ROLE}.run (); CREATE TABLE {ROLE}.pg_class ();
        GRANT USAGE ON SCHEMA {ROLE} TO {ROLE};
        ALTER ROLE {ROLE} SET search_path = {ROLE}, pg_catalog""")
    dsn = empty_database.replace(f"{USER}:{PASSWORD}@", f"{ROLE}:x@")

    with Cluster(dsn, tmp_path) as cluster:
        cluster.start("a")
        as_node = await asyncpg.connect(dsn)
        await control.put_schedule(as_node, "tick", spec="* * * * * *", handler="py:work")
        await as_node.execute("SELECT pgcron.enqueue('py:work')")
        ended = "SELECT pg_catalog.count(*) > 3 FROM pgcron.history WHERE outcome = 'succeeded'"
        await until("it works", lambda: as_node.fetchval(ended))
        doctor = cluster.command("doctor")
        assert (doctor.returncode, doctor.stderr) == (0, "")
        proof = await prove(dba, await dba.fetchval("SELECT now() - interval '1 hour'"))
        assert proof.breaks == []
        await as_node.close()
    await dba.execute(f"DROP OWNED BY {ROLE} CASCADE; DROP SCHEMA {ROLE} CASCADE; DROP ROLE {ROLE}")
    await dba.close()


@pytest.fixture
async def owns_nothing(connection: control.Connection, database: str) -> AsyncIterator[str]:
    """The DSN of a role that has the part `node` and no more."""
    name = f"works_on_{urlsplit(database).path[1:]}"
    await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    for statement in statements("node", name, "pgcron"):
        await connection.execute(statement)
    yield database.replace(f"{USER}:{PASSWORD}@", f"{name}:x@")
    await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


WORKFLOW = {"steps": [{"name": "a", "handler": "py:work"}, {"name": "b", "handler": "py:work"}]}


async def test_nodes_of_a_role_that_owns_nothing_do_all_that_nodes_do(
    connection: control.Connection, owns_nothing: str, tmp_path: Path
) -> None:
    await retention.make_days(connection, 6)
    old = await retention.ended(connection, 5, 50, queue="mail")
    await connection.execute("SELECT pgcron.set_retention('1 day', 'mail')")
    await connection.execute("SELECT pgcron.add_partition('log', '2020-01-02Z', '2020-01-03Z')")
    last = await connection.fetchval(
        "SELECT 'pgcron.' || name FROM pgcron.partitions_of('attempt') ORDER BY high DESC LIMIT 1"
    )
    await connection.execute(f"DROP TABLE {last}")
    await control.put_schedule(connection, "tick", spec="* * * * * *", handler="py:work")
    await connection.execute("SELECT pgcron.put_workflow('two', $1::jsonb)", json.dumps(WORKFLOW))

    with Cluster(owns_nothing, tmp_path) as cluster:
        first, _ = cluster.start("a"), cluster.start("b")
        enqueue = "SELECT pgcron.enqueue($1, $2::jsonb, concurrency_key => $3, delivery => $4)"
        long = await connection.fetchval(enqueue, "py:work", '{"seconds": 60}', None, None)
        asked = {
            await connection.fetchval(enqueue, handler, args, key, delivery)
            for handler, args, key, delivery in (
                ("py:random_work", '{"most": 0.1, "fails": 0.9}', None, None),
                ("py:work", "{}", "key", None),
                ("workflow:two", "{}", None, None),
                ("py:work", "{}", None, "at_most_once"),
            )
        }
        await connection.execute(
            "SELECT pgcron.backfill('tick', now() - interval '9 days', now() - interval '9 days'"
            " + interval '3 s')"
        )
        holder = "SELECT n.name FROM pgcron.run r JOIN pgcron.node n ON n.incarnation = r.owner"
        await until("it runs", lambda: connection.fetchval(f"{holder} WHERE r.id = $1", long))
        first.kill9()
        await connection.execute("SELECT pgcron.cancel_run($1)", long)
        done = "SELECT count(*) = $2 FROM pgcron.history WHERE id = ANY($1::bigint[])"
        await until("all end", lambda: connection.fetchval(done, [*asked, long], len(asked) + 1))
        filled = "SELECT state = 'done' FROM pgcron.backfills"
        await until("the backfill is done", lambda: connection.fetchval(filled))
        fires = "SELECT count(*) > 3 FROM pgcron.history WHERE schedule = 'tick'"
        await until("the schedule fires", lambda: connection.fetchval(fires))
        gone = "SELECT to_regclass('pgcron.log_20200102') IS NULL"
        await until("an outlived partition is dropped", lambda: connection.fetchval(gone))
        ahead = "SELECT to_regclass($1) IS NOT NULL"
        await until("a missing one is made", lambda: connection.fetchval(ahead, last))
        swept = "SELECT NOT EXISTS (SELECT FROM pgcron.history WHERE id = ANY($1::bigint[]))"
        await until("what a rule removes is gone", lambda: connection.fetchval(swept, old))
        doctor = cluster.command("doctor")
        assert (doctor.returncode, doctor.stderr) == (0, ""), doctor.stdout
        assert "has the rights of a node and owns nothing" in doctor.stdout
        written = "".join(node.output() for node in cluster.nodes)
    assert "permission denied" not in written
    assert "must be owner" not in written
    proof = await prove(connection, await connection.fetchval("SELECT now() - interval '1 hour'"))
    assert proof.breaks == []
