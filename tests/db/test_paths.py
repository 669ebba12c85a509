"""What a session has on its search_path changes nothing of what tables and functions mean."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest

from pgcron_ha import App
from tests.db.control import Connection
from tests.db.roles import Become, verdict
from tests.e2e.attacker import stand_before_everything
from tests.pooler import straight
from tests.product.db import COMMAND, assume, connect
from tests.product.db import overview_runs as runs

PATH = "SET search_path = attacker, pg_catalog"

# A value of each type that is not NULL, written so that no path matters; of a row, its table's.
VALUES = """
    SELECT p.oid::regprocedure::text AS function, p.prokind = 'p' AS is_procedure,
           (SELECT string_agg(CASE
              WHEN t.typtype = 'c' THEN format('(SELECT o FROM %s o LIMIT 1)', t.oid::regtype)
              WHEN t.typname = 'bool' THEN 'true'
              WHEN t.typcategory = 'N' THEN format('''1''::pg_catalog.%I', t.typname)
              WHEN t.typname IN ('text', 'name') THEN '''mon''::pg_catalog.text'
              WHEN t.typname = 'jsonb' THEN '''{"a": 1}''::pg_catalog.jsonb'
              WHEN t.typname = 'interval' THEN '''1 second''::pg_catalog.interval'
              WHEN t.typname IN ('timestamptz', 'date') THEN '''2026-01-01''::pg_catalog.' || t.typname
              WHEN t.typname = '_text' THEN '''{mon}''::pg_catalog._text'
              WHEN t.typname = '_int8' THEN '''{1}''::pg_catalog._int8'
              ELSE format('NULL::%s.%I', t.typnamespace::regnamespace, t.typname) END, ', ' ORDER BY place)
              FROM unnest(p.proargtypes) WITH ORDINALITY given(type, place) JOIN pg_type t ON t.oid = type) AS args
      FROM pg_proc p WHERE p.pronamespace = 'pgcron'::regnamespace AND p.prorettype <> 'trigger'::regtype
     ORDER BY 1
"""  # noqa: E501
LOOSE = """
    SELECT oid::regprocedure::text FROM pg_proc
     WHERE pronamespace = 'pgcron'::regnamespace AND prosqlbody IS NULL AND prokind <> 'p'
       AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY(proconfig), false)
"""
NAMED_FROM_TABLES = """
    SELECT oid FROM pg_trigger
     WHERE tgrelid::regclass::text LIKE 'pgcron.%' AND NOT tgisinternal
       AND tgfoid NOT IN (SELECT oid FROM pg_proc WHERE pronamespace = 'pgcron'::regnamespace)
"""
LONG = "a" * 300
MANY = "pgcron.enqueue_many"

# What each part may write, with what breaks a rule, and who refuses it.
WRITES = {
    "producer": {
        "INSERT INTO pgcron.run (handler) VALUES ('py:work')": "00000",
        "INSERT INTO pgcron.run (handler) VALUES ('no handler')": "PC001",
        "INSERT INTO pgcron.run (handler, priority) VALUES ('py:work', 10)": "PC001",
        f"INSERT INTO pgcron.run (handler, concurrency_key) VALUES ('py:work', '{LONG}')": "PC001",
        "INSERT INTO pgcron.run (handler, requires) VALUES ('py:work', '{a b}')": "PC001",
        "INSERT INTO pgcron.run (handler, retry) VALUES ('py:work', '{\"a\": 1}')": "PC001",
        "SELECT pgcron.enqueue('py:work', idempotency_key => '')": "PC001",
        "SELECT pgcron.enqueue('py:work')": "00000",
        "SELECT pgcron.enqueue('py:work', unique_key => 'k')": "00000",
        "SELECT pgcron.enqueue('py:work', idempotency_key => 'k')": "00000",
        "SELECT pgcron.enqueue('work', idempotency_key => 'k')": "PC001",
        f'SELECT {MANY}(\'[{{"handler": "py:work"}}]\')::pg_catalog.text': "00000",
        f'SELECT {MANY}(\'[{{"handler": "work"}}]\')::pg_catalog.text': "PC001",
    },
    "scheduler": {
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '@daily', 'py:x')": "00000",
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '@daily', 'x y')": "PC001",
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '', 'py:x')": ("PC002"),
        "INSERT INTO pgcron.schedule (name, spec, handler, concurrency_key)"
        f" VALUES ('s', '@daily', 'py:x', '{LONG}')": "PC001",
        "INSERT INTO pgcron.schedule (name, spec, handler, requires) VALUES ('s', '@daily', 'py:x',"
        " '{a b}')": "PC001",
        "INSERT INTO pgcron.schedule (name, spec, handler, retry) VALUES ('s', '@daily', 'py:x',"
        ' \'{"base": "long"}\')': "PC001",
        "SELECT pgcron.put_schedule('s', '0 9 * * mon', 'py:x', actor => 'me')": "00000",
        "SELECT pgcron.put_schedule('s', '0 9 * * mon', 'x')": "PC001",
        "SELECT pgcron.put_schedule('old', '@hourly', 'py:x')": "00000",
        "SELECT pgcron.rename_schedule('old', 'new')": "00000",
        "SELECT pgcron.delete_schedule('old')": "00000",
        "SELECT pgcron.put_calendar('c', 'sat')": "00000",
        "SELECT pgcron.put_calendar('c', E'\\x01')": "PC005",
        "SELECT pgcron.why('old', '2026-01-01')": "00000",
    },
    "operator": {
        "SELECT pgcron.set_queue('q', rate => 1, per => '1 second')": "00000",
        "SELECT pgcron.set_queue('q', rate => 0, per => '0')": "PC001",
        "SELECT pgcron.set_queue('a b')": "PC001",
        "SELECT pgcron.set_concurrency('l', 1)": "00000",
        "SELECT pgcron.set_concurrency('', 1)": "PC001",
        "SELECT pgcron.set_concurrency('l', 1, 0, '0')": "PC001",
        "SELECT pgcron.set_breaker('x')": "PC001",
        f"SELECT pgcron.cordon_node('n', '{2 * LONG}')": "PC010",
        f"SELECT pgcron.pause_cluster(actor => '{2 * LONG}')": "PC001",
        "SELECT pgcron.pause_schedule('old', 'why')": "00000",
        "SELECT pgcron.pause_queue('default')": "00000",
        "SELECT pgcron.set_queue('q', 3)": "00000",
        "SELECT pgcron.set_concurrency('l', 0)": "PC001",
        "SELECT pgcron.set_breaker('py:x', 3)": "00000",
        "SELECT pgcron.run_now('old')": "00000",
        "SELECT pgcron.cancel_run(1)": "00000",
    },
    "viewer": {
        "SELECT pgcron.why('old', '2026-01-01')": "00000",
        "SELECT pgcron.scale_demand()": "00000",
        "SELECT id FROM pgcron.runs": "00000",
        "SELECT name FROM pgcron.schedules": "00000",
        "SELECT name FROM pgcron.queues": "00000",
    },
}


@pytest.fixture
async def trapped(database: str, connection: Connection) -> AsyncIterator[Connection]:
    """The owner's session in a database where everything of pg_catalog has a trap before it."""
    await connection.execute(
        "SELECT pgcron.enqueue('py:work'), pgcron.put_schedule('old', '@daily', 'py:work')"
    )
    assert await stand_before_everything(straight(database)) > 500
    session = await asyncpg.connect(straight(database))
    with pytest.raises(asyncpg.RaiseError, match="trapped"):
        await session.fetchval("SELECT 1 + 1")
    yield session
    await session.close(timeout=5)


async def test_every_function_has_a_path_of_its_own_or_was_read_when_it_was_made(
    connection: Connection,
) -> None:
    assert await connection.fetch(LOOSE) == []
    assert await connection.fetch(NAMED_FROM_TABLES) == []


async def test_no_function_looks_up_anything_on_the_callers_path(
    connection: Connection, trapped: Connection
) -> None:
    every = await connection.fetch(VALUES)
    assert len(every) > 250
    await trapped.execute("SET statement_timeout = '3s'")
    caught = {}
    for row in every:
        name = row["function"].partition("(")[0]
        # The driver looks up types of results that it does not know, on the path.
        verb = "CALL" if row["is_procedure"] else "SELECT pg_catalog.count(*) FROM"
        for args in {row["args"] or "", ", ".join("NULL" for _ in (row["args"] or "").split("::"))}:
            transaction = trapped.transaction()
            await transaction.start()
            try:
                await trapped.fetch(f"{verb} {name}({args})")
            except asyncpg.PostgresError as error:
                if "trapped" in str(error):
                    caught[row["function"]] = str(error)
            finally:
                with suppress(asyncpg.PostgresError):
                    await transaction.rollback()

    assert caught == {}


@pytest.mark.parametrize("part", WRITES)
async def test_a_part_is_judged_by_our_rules_and_not_by_those_on_its_path(
    part: str, trapped: Connection, become: Become
) -> None:
    session = await become(part)
    await session.execute(PATH)

    found = {statement: await verdict(session, statement) for statement in WRITES[part]}

    assert found == WRITES[part]


async def test_who_asks_through_a_pooler_asks_on_our_path(
    database: str, trapped: Connection
) -> None:
    pooled = straight(database) + "&keepalives=1"  # another DSN: nobody knows it yet
    assume(pooled, "transaction")

    async with App(pooled) as app:
        run = await app.enqueue("py:work", {"day": 1})
        assert (await app.run(run)).state == "ready"
        assert await app.cancel_run(run) == "cancelled"
    command = await connect(pooled, COMMAND)
    listed = await runs(command, limit=5)
    path = await command.fetchval("SELECT pg_catalog.current_setting('search_path')")
    async with command.transaction():
        inside = await command.fetchval("SELECT pg_catalog.current_setting('lock_timeout')")
    await command.close()

    assert len(listed) == 2
    assert path == "pg_catalog, pg_temp"
    assert inside == "10s"
    assert await trapped.fetchval("SHOW search_path") == "attacker, pg_catalog"
