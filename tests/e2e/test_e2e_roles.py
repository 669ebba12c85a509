"""A node as a role that owns the schema and nothing else: what a DBA has run for it suffices."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from tests.db import control
from tests.e2e.nodes import Cluster
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
