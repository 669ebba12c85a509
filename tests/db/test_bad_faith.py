"""What a producer in bad faith tries by plain SQL on what it may write."""

from __future__ import annotations

import pytest

from tests.db.control import Connection
from tests.db.roles import Become, verdict
from tests.product.client import RunRequest
from tests.product.db import once


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

    for statement in (
        "SELECT pgcron.finish_run(id, token) FROM pgcron.run",
        "SELECT * FROM pgcron.run",
        "SELECT run FROM pgcron.run",
        "SELECT token_hash FROM pgcron.callback",
    ):
        assert await verdict(session, statement) == "42501", statement
    # All other columns are read.
    readable = ", ".join(
        await connection.fetchval(
            "SELECT array_agg(attname) FROM pg_attribute WHERE attrelid = 'pgcron.run'::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attname <> 'token'"
        )
    )
    assert await session.fetchval(f"SELECT id FROM (SELECT {readable} FROM pgcron.run) r") == run
    assert await verdict(session, "SELECT token FROM pgcron.run") == "42501"
