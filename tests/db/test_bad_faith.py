"""What a producer in bad faith tries by plain SQL on what it may write."""

from __future__ import annotations

import asyncpg
import pytest

from tests.db.control import Connection
from tests.db.roles import Become, verdict, verdicts
from tests.product.cli import statements
from tests.product.client import RunRequest
from tests.product.db import once


async def committed(session: Connection, *statements: str) -> str:
    """The SQLSTATE of a transaction of these, at its end at the latest."""
    try:
        async with session.transaction():
            for statement in statements:
                await session.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return "00000"


async def test_a_key_is_judged_on_no_path_of_the_caller_s(
    connection: Connection, become: Become
) -> None:
    await connection.execute("SELECT pgcron.enqueue('py:x', idempotency_key => 'order 8')")
    session = await become("producer", queues=["mail"])
    name = await session.fetchval("SELECT session_user")
    await connection.execute(f"""
        CREATE SCHEMA {name} AUTHORIZATION {name}; SET ROLE {name};
        CREATE FUNCTION {name}.has_table_privilege(regclass, text) RETURNS boolean
          LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION {name}.has_column_privilege(regclass, text, text) RETURNS boolean
          LANGUAGE sql AS 'SELECT true';
        RESET ROLE""")
    await session.execute(f"SET search_path = {name}, pg_catalog")

    for change in ("expires_at = '-infinity'", "run_id = -1"):
        assert await verdict(session, f"UPDATE pgcron.idempotency SET {change}") == "PC013"


@pytest.mark.parametrize("only", [{}, {"queues": ["mail"], "handlers": ["py:mail"]}])
async def test_keys_of_others_stay_and_new_ones_name_a_run_that_is_made(
    only: dict[str, list[str]], connection: Connection, become: Become
) -> None:
    kept = "SELECT pgcron.enqueue('py:x', unique_key => 'k9', unique_for => '1 hour')"
    theirs = await connection.fetchval(kept)
    session = await become("producer", **only)

    got = await verdicts(
        session,
        "UPDATE pgcron.unique_period SET until = 'infinity', run_id = -1 WHERE key = 'k9'",
        "UPDATE pgcron.unique_period SET until = 'infinity'",
        "UPDATE pgcron.unique_period SET until = '-infinity', run_id = -1",
        "UPDATE pgcron.unique_period SET run_id = -1",
    )
    # The first is judged when its transaction ends.
    assert [*got.values()] == ["00000", "PC013", "PC013", "PC013"]
    mine = "INSERT INTO pgcron.run (handler, queue) VALUES ('py:mail', 'mail')"
    drawn = "currval('pgcron.run_id_seq')"
    period = "INSERT INTO pgcron.unique_period VALUES"
    for attempt in (
        [next(iter(got))],
        [mine, f"UPDATE pgcron.unique_period SET until = 'infinity', run_id = {drawn}"],
        [mine, f"UPDATE pgcron.unique_period SET until = now() + '2 h', run_id = {drawn}"],
        ["INSERT INTO pgcron.idempotency VALUES ('order 77', -1, 'infinity')"],
        [f"INSERT INTO pgcron.idempotency VALUES ('order 77', {theirs}, 'infinity')"],
        [f"{period} ('k', 'py:mail', {theirs}, now() + '1 hour')"],
        [mine, f"{period} ('k', 'py:x', {drawn}, now() + '1 hour')"],
        [mine, f"{period} ('k', 'py:mail', {drawn}, 'infinity')"],
    ):
        assert await committed(session, *attempt) == "PC013", attempt
    assert await connection.fetchval(kept) == theirs
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0


async def test_a_producer_in_good_faith_has_its_keys(
    connection: Connection, become: Become
) -> None:
    session = await become("producer", queues=["mail"], handlers=["py:mail"])
    asked = "SELECT pgcron.enqueue('py:mail', queue => 'mail', {})"
    ways = (
        "idempotency_key => 'k'",
        "unique_key => 'k', unique_for => '366 days'",
        "unique_key => 'm', unique_for => '1 hour', due_at => now() + '3 years'",
        "unique_key => 'l', unique_for => '1 hour', on_conflict => 'replace'",
    )
    for way in ways:
        run = await session.fetchval(asked.format(way))
        assert await session.fetchval(asked.format(way)) == run
    # The next one after what a node has taken already.
    await connection.execute("SELECT pgcron.cancel_run($1)", run)
    assert await session.fetchval(asked.format(way)) > run
    both = """[{"handler": "py:mail", "queue": "mail", "idempotency_key": "b"},
               {"handler": "py:mail", "queue": "mail"}]"""
    many = await session.fetchval("SELECT pgcron.enqueue_many($1)", both)
    assert (await session.fetchval("SELECT pgcron.enqueue_many($1)", both))[0] == many[0]
    # Made and cancelled in one transaction.
    async with session.transaction():
        run = await session.fetchval(asked.format("idempotency_key => 'gone'"))
        assert await session.fetchval("SELECT pgcron.cancel_own_run($1)", run) == "cancelled"
    assert await session.fetchval(asked.format("idempotency_key => 'gone'")) == run
    await connection.execute(
        "UPDATE pgcron.idempotency SET expires_at = now();"
        "UPDATE pgcron.unique_period SET until = now()"
    )
    for way in ways:
        assert await session.fetchval(asked.format(way)) > run


async def test_an_operator_s_form_is_one_operation(connection: Connection, become: Become) -> None:
    operator = await become("operator")
    request = RunRequest("py:x", "{}", {})

    reported = []
    for _ in range(2):
        async with operator.transaction():
            reported.append(
                await once(operator, "form 7", lambda: request.send(operator, "pgcron"))
            )
    assert reported == [(reported[0][0], True), (reported[0][0], False)]


@pytest.mark.parametrize("part", ["viewer", "scheduler", "operator"])
async def test_who_looks_completes_no_run_of_others(
    part: str, connection: Connection, become: Become
) -> None:
    run = await connection.fetchval("SELECT pgcron.enqueue('py:x')")
    session = await become("producer", part, "service")
    name = await session.fetchval("SELECT session_user")

    for statement in (
        "SELECT pgcron.finish_run(id, token) FROM pgcron.run",
        "SELECT * FROM pgcron.run",
        "SELECT run FROM pgcron.run",
        "SELECT token_hash FROM pgcron.callback",
    ):
        assert await verdict(session, statement) == "42501", statement
    # All others are read, also by who was given the whole table once and is given the part again.
    readable = ", ".join(
        await connection.fetchval(
            "SELECT array_agg(attname) FROM pg_attribute WHERE attrelid = 'pgcron.run'::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attname <> 'token'"
        )
    )
    await connection.execute(f"GRANT SELECT ON pgcron.run TO {name}")
    await connection.execute("".join(statements(part, name, "pgcron")))
    assert await session.fetchval(f"SELECT id FROM (SELECT {readable} FROM pgcron.run) r") == run
    assert await verdict(session, "SELECT token FROM pgcron.run") == "42501"
