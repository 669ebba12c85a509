"""The real SQL under a clock of the test's own.

``now()`` is shadowed by a function of the same name in a schema that comes first in the search
path. A sequence of calls is one transaction that is rolled back: nothing has to be cleaned up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import asyncpg

from tests.product.db import NEWEST, answers, connect, load

T = TypeVar("T")

FIRST_INSTANT: Final = datetime(2020, 1, 1, tzinfo=UTC)

# What a function or a default of ours asks for must be the shadow, too.
_SHADOW: Final = """
CREATE SCHEMA shadow;
GRANT USAGE ON SCHEMA shadow TO PUBLIC;
CREATE FUNCTION shadow.now() RETURNS timestamptz LANGUAGE sql STABLE
  AS $$ SELECT pg_catalog.current_setting('shadow.now')::timestamptz $$;
CREATE FUNCTION shadow.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
  AS $$ SELECT shadow.now() $$;
CREATE FUNCTION shadow.random() RETURNS float8 LANGUAGE sql VOLATILE
  AS $$ SELECT 0.5::float8 $$;
DO $$
DECLARE one record;
BEGIN
  FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
              WHERE p.pronamespace = 'pgcron'::regnamespace
                AND EXISTS (SELECT FROM unnest(p.proconfig) s WHERE s LIKE 'search_path=%') LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = shadow, pg_catalog, pg_temp', one.name);
  END LOOP;
  FOR one IN SELECT d.adrelid::regclass AS relation, a.attname FROM pg_attrdef d
               JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
               JOIN pg_class c ON c.oid = d.adrelid
              WHERE c.relnamespace = 'pgcron'::regnamespace
                AND pg_get_expr(d.adbin, d.adrelid) = 'now()' LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT shadow.now()',
                   one.relation, one.attname);
  END LOOP;
END $$;
-- Views, and functions whose body was read when they were made, are made again.
DO $$
DECLARE
  made text[] := ARRAY(
    SELECT pg_get_functiondef(p.oid) FROM pg_proc p
     WHERE p.pronamespace = 'pgcron'::regnamespace AND p.prosqlbody IS NOT NULL
       AND pg_get_functiondef(p.oid) ~ 'now\\(|clock_timestamp\\(|random\\('
    UNION ALL
    SELECT format('CREATE OR REPLACE VIEW %s AS %s', c.oid::regclass, pg_get_viewdef(c.oid))
      FROM pg_class c WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'v'
       AND pg_get_viewdef(c.oid) ~ 'now\\(');
  command text;
BEGIN
  PERFORM set_config('search_path', 'shadow, pg_catalog, pg_temp', true);
  FOREACH command IN ARRAY made LOOP EXECUTE command; END LOOP;
END $$;
"""

# A whole sequence is one transaction, and how long it and its statements take is the machine's
# affair: a bound that ends one of them would make the same sequence go on in another way.
_WITHOUT_TIMEOUTS: Final = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout',"
    " 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"
)
_SHADOWED: Final = "SET search_path = shadow, pg_catalog"


class RealStore:
    """`call` and `ask`; `begin` and `undo` around each sequence."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._statements = load(revision=NEWEST)
        self.now = FIRST_INSTANT
        self.connection = self.wait(self._connect(dsn))

    def begin(self) -> None:
        self._transaction = self.connection.transaction()
        self.wait(self._transaction.start())
        self.set_clock(FIRST_INSTANT)

    def undo(self) -> None:
        self.wait(self._transaction.rollback())

    def close(self) -> None:
        self.wait(self.connection.close(timeout=5))
        self._loop.close()

    def set_clock(self, now: datetime) -> None:
        self.now = now
        self.wait(
            self.connection.fetch("SELECT set_config('shadow.now', $1, false)", now.isoformat())
        )

    def call(self, name: str, /, **parameters: Any) -> list[asyncpg.Record]:
        """The rows of one named statement; raises the error of ours that it raises."""
        statement = self._statements[name]
        assert set(parameters) == set(statement.parameters), name
        return self.ask(statement.sql, *(parameters[each] for each in statement.parameters))

    def ask(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """The rows of what people ask for; raises the error of ours that it raises."""
        with answers():
            return self.wait(self._savepoint(query, arguments))

    async def _connect(self, dsn: str) -> asyncpg.Connection:
        connection = await connect(dsn)
        await connection.execute(self._statements["note_timeline"].sql)
        await connection.execute(_WITHOUT_TIMEOUTS)
        await connection.execute(_SHADOW)
        await connection.execute(_SHADOWED)
        return connection

    async def _savepoint(self, query: str, arguments: tuple[Any, ...]) -> list[asyncpg.Record]:
        async with self.connection.transaction():
            found: list[asyncpg.Record] = await self.connection.fetch(query, *arguments)
            return found

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Goes on while somebody waits."""
        return self._loop.create_task(work)

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(answer)
