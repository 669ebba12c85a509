"""What executes with its owner's rights: fixed to our schema, and for nobody who was not let."""

from __future__ import annotations

import asyncpg
import pytest

from tests.db.control import Connection, put_schedule

# Each asks who the caller is, or tells nothing but whether a run has ended, or may be made.
FOR_EVERYBODY = {"run_status", "look_for_end", "await_runs", "judge_guest"}


async def definers(connection: Connection) -> list[asyncpg.Record]:
    return await connection.fetch(
        "SELECT proname AS name, proconfig AS settings, oid::regprocedure::text AS signature,"
        " has_function_privilege('public', oid, 'EXECUTE') AS is_for_everybody FROM pg_proc"
        " WHERE pronamespace = 'pgcron'::regnamespace AND prosecdef"
    )


async def test_who_executes_with_the_owners_rights_looks_nowhere_else(
    connection: Connection,
) -> None:
    found = await definers(connection)

    assert len(found) > 20
    loose = [
        row["signature"]
        for row in found
        if "search_path=pg_catalog, pg_temp" not in (row["settings"] or [])
    ]
    assert loose == []


async def test_nobody_borrows_the_owners_rights_who_was_not_let(connection: Connection) -> None:
    # A trigger's function, too: whoever may execute it can hang it on a table of their own.
    found = await definers(connection)

    assert {row["name"] for row in found if row["is_for_everybody"]} == FOR_EVERYBODY


async def test_a_schedule_is_not_edited_behind_its_back(
    connection: Connection, orphan: Connection
) -> None:
    schedule = await put_schedule(connection)

    for verb in ("apply_edit", "ask_preview"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await orphan.execute(f"SELECT pgcron.{verb}($1)", schedule)
