"""The conformance suite, on SQL profiles."""

from __future__ import annotations

import psycopg
import pytest

from pgcron_ha.executors.contract.base import Context, Executor, ExecutorServices
from tests.executors.test_sql import profile
from tests.product.db import SqlDatabase
from tests.product.executors import MAX_LINE_BYTES, MAX_LINES, SqlExecutor
from tests.product.testing import ExecutorConformance, Sample

LOCK = "PERFORM pg_advisory_xact_lock(current_setting('pgcron.run_id')::bigint)"
STATEMENTS = {
    "succeeds": "SELECT 1",
    "fails": "SELECT 1/0",
    "lasts": "SELECT pg_advisory_xact_lock(:pgcron_run_id); SELECT pg_sleep(60)",
    "insists": f"""DO $$ BEGIN {LOCK}; LOOP
        BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
      END LOOP; END $$""",
    "talks": f"""DO $$ BEGIN
        RAISE NOTICE '%', repeat('x', {MAX_LINE_BYTES + 1});
        FOR n IN 1 .. {MAX_LINES} LOOP RAISE NOTICE 'a'; END LOOP;
      END $$""",
}


class TestSql(ExecutorConformance):
    succeeds = Sample("sql:succeeds")
    fails = Sample("sql:fails")
    refused = Sample("sql:succeeds", {"unknown": 1})
    lasts = Sample("sql:lasts")
    insists = Sample("sql:insists")
    talks = Sample("sql:talks")
    slots = 8

    @pytest.fixture(autouse=True)
    def _database(self, database: str) -> None:
        self.dsn = database

    def make(self, executor_services: ExecutorServices) -> Executor:
        profiles = {
            name: profile(statement, connections=8, grace="1s")
            for name, statement in STATEMENTS.items()
        }
        return SqlExecutor(
            profiles,
            {name: SqlDatabase(lambda: self.dsn, 8) for name in profiles},
            executor_services,
            lambda _: None,
        )

    def is_at_work(self, context: Context) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s",
                (context.run_id,),
            ).fetchone()
        return row is not None and row[0] > 0
