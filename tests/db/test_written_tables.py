"""Which tables a part may write by plain SQL, as the catalog says: new tables are in it, too."""

from __future__ import annotations

import pytest

from tests.db.control import Connection
from tests.db.roles import Become, verdict
from tests.product.cli import PARTS

# All else is written by functions, which record who has called them.
WRITTEN = {
    "producer": {"INSERT run"},
    "scheduler": {"INSERT schedule", "UPDATE schedule", "DELETE schedule"},
}
NEVER = """
    id uuid origin schedule_id schedule scheduled_for nominal_for parent_run state gate attempt
    owner token fence claimed_at started_at cancel_at cancel_reason kill_at created_at awaited
    lost_early snoozes overlap overlap_slot key_slot unique_key unique_scope namespace
    created_login last_error
"""
TABLES = """
    SELECT c.oid::regclass::text AS name FROM pg_class c
     WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""
GRANTED = f"""
    SELECT t.name, verb,
           CASE WHEN verb IN ('INSERT', 'UPDATE') THEN has_any_column_privilege(t.name, verb)
                ELSE has_table_privilege(t.name, verb) END AS is_granted
      FROM ({TABLES}) t CROSS JOIN unnest('{{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER,REFERENCES}}'::text[]) verb"""  # noqa: E501

COLUMNS = """
    SELECT c.oid::regclass::text AS name, min(a.attname) AS column
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')
       AND NOT c.relispartition GROUP BY c.oid"""


@pytest.mark.parametrize("part", [part for part in PARTS if part != "node"])
async def test_a_part_writes_the_tables_that_are_listed_and_no_other(
    part: str, become: Become
) -> None:
    session = await become(part)

    rows = await session.fetch(GRANTED)
    assert len(rows) > 400
    granted = {
        f"{row['verb']} {row['name'].partition('.')[2]}" for row in rows if row["is_granted"]
    }
    assert granted == WRITTEN.get(part, set())
    # Asked in earnest, too.
    for row in await session.fetch(COLUMNS):
        name = row["name"]
        for verb, said in (
            ("INSERT", f"INSERT INTO {name} DEFAULT VALUES"),
            ("UPDATE", f"UPDATE {name} SET {row['column']} = DEFAULT"),
            ("DELETE", f"DELETE FROM {name}"),
            ("TRUNCATE", f"TRUNCATE {name}"),
        ):
            if f"{verb} {name.partition('.')[2]}" not in granted:
                assert await verdict(session, said) == "42501", said


async def test_no_column_of_a_run_is_written_that_only_the_engine_writes(
    connection: Connection, become: Become
) -> None:
    session = await become("producer")

    written = await session.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'pgcron.run'::regclass AND attnum > 0"
        " AND NOT has_column_privilege(attrelid, attnum, 'INSERT')"
    )
    assert {row["attname"] for row in written} == set(NEVER.split())


async def test_a_run_leaves_only_into_history(connection: Connection, become: Become) -> None:
    operator = await become("operator", "scheduler", "viewer")
    run = await connection.fetchval("SELECT pgcron.enqueue('py:x')")
    for said in (
        "DELETE FROM pgcron.run",
        "INSERT INTO pgcron.history SELECT * FROM pgcron.history",
        "UPDATE pgcron.occurrence SET reason = 'skipped by alice'",
        "UPDATE pgcron.run SET due_at = 'infinity'",
        "DELETE FROM pgcron.dead_letter",
        "INSERT INTO pgcron.log SELECT * FROM pgcron.log",
    ):
        assert await verdict(operator, said) == "42501", said

    assert await operator.fetchval("SELECT pgcron.cancel_run($1)", run) == "cancelled"
    ended = await connection.fetchrow("SELECT outcome, cancel_reason, error FROM pgcron.history")
    login = await operator.fetchval("SELECT session_user")
    assert ended is not None
    assert (ended["outcome"], login in ended["error"]) == ("cancelled", True)
