"""The real SQL under a clock of the test's own: what the stand-in is compared with.

``now()`` is shadowed by a function of the same name in a schema that comes first in the search
path, so both sides live at the same instant, to the microsecond. A sequence of calls is one
transaction that is rolled back: nothing has to be cleaned up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import asyncpg

from tests.product.db import NEWEST, answers, connect, load
from tests.simulation import tables
from tests.simulation.tables import FIRST_INSTANT, Row

T = TypeVar("T")

CHANCE: Final = 0.5
"""What ``random()`` answers."""

# What a function or a default of ours asks for must be the shadow, too.
_SHADOW: Final = f"""
CREATE SCHEMA shadow;
GRANT USAGE ON SCHEMA shadow TO PUBLIC;
CREATE FUNCTION shadow.now() RETURNS timestamptz LANGUAGE sql STABLE
  AS $$ SELECT pg_catalog.current_setting('shadow.now')::timestamptz $$;
CREATE FUNCTION shadow.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
  AS $$ SELECT shadow.now() $$;
CREATE FUNCTION shadow.random() RETURNS float8 LANGUAGE sql VOLATILE
  AS $$ SELECT {CHANCE}::float8 $$;
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

_WITHOUT_TIMEOUT: Final = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'"
)
_SHADOWED: Final = "SET search_path = shadow, pg_catalog"

_DURATIONS: Final = {
    "lease_ttl",
    "catchup_window",
    "start_deadline",
    "timeout",
    "retry_base",
    "retry_cap",
}
# The stand-in's tables, the rows of the real ones that it knows, and the order of both.
TABLES: Final[dict[str, tuple[str, type, str]]] = {
    "nodes": ("node", tables.NodeRow, "incarnation"),
    "schedules": ("schedule", tables.Schedule, "id"),
    "cursors": ("cursor", tables.Cursor, "schedule_id"),
    "runs": ("run", tables.Run, "id"),
    "occurrences": ("occurrence", tables.Occurrence, "schedule_id, fire_at"),
    "missed": ("missed", tables.Missed, "schedule_id, first_at"),
    "attempts": ("attempt", tables.Attempt, "run_id, attempt"),
}
# Rows of these hold a run as it was.
_RUN_WHEN_IT_ENDED: Final = (
    *("id", "origin", "schedule_id", "schedule", "scheduled_for", "nominal_for", "parent_run"),
    *(
        "concurrency_key",
        "weight",
        "queue",
        "priority",
        "handler",
        "delivery",
        "attempt",
        "max_attempts",
        "due_at",
    ),
    *("requires", "snoozes", "created_at", "claimed_at", "owner", "fence", "cancel_reason"),
)


class RealStore:
    """`call` and `dump`, as the stand-in has them; `begin` and `undo` around each sequence."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._statements = load(revision=NEWEST)
        self.now = FIRST_INSTANT
        self.connection = self.wait(self._connect(dsn))
        self._queries = {name: _query(*TABLES[name]) for name in TABLES}

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
        self._fetch("SELECT set_config('shadow.now', $1, false)", now.isoformat())

    def call(self, name: str, /, **parameters: Any) -> list[Row]:
        """The rows of one named statement; raises the error of ours that it raises."""
        statement = self._statements[name]
        assert set(parameters) == set(statement.parameters), name
        arguments = [parameters[parameter] for parameter in statement.parameters]
        with answers():
            return self.wait(self._savepoint(statement.sql, arguments))

    def ask(self, query: str, *arguments: Any) -> list[Any]:
        """The rows of what people ask for; raises the error of ours that it raises."""
        with answers():
            return self.wait(self._savepoint(query, list(arguments)))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What the real table holds, in the stand-in's words."""
        return [_plain(row) for row in self._fetch(self._queries[table])]

    def history(self) -> list[dict[str, Any]]:
        columns = ", ".join(_RUN_WHEN_IT_ENDED)
        query = f"SELECT {columns}, outcome, finished_at, started_at, error, result::text"
        return [_plain(row) for row in self._fetch(f"{query} FROM pgcron.history ORDER BY id")]

    def dead_letters(self) -> list[dict[str, Any]]:
        columns = "run_id, outcome, died_at, error, requeued_as, requeued_at"
        query = f"SELECT {columns} FROM pgcron.dead_letter ORDER BY run_id"
        return [_plain(row) for row in self._fetch(query)]

    def fires(self) -> dict[tuple[int, datetime], int]:
        """Which run each fire has."""
        query = "SELECT schedule_id, fire_at, run_id FROM pgcron.occurrence"
        return {(row[0], row[1]): row[2] for row in self._fetch(query)}

    def _fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = self.wait(self.connection.fetch(query, *arguments))
        return found

    async def another(self, connection: asyncpg.Connection) -> None:
        """Gives another connection the same clock."""
        await connection.execute(_SHADOWED)
        await connection.execute("SELECT set_config('shadow.now', $1, false)", self.now.isoformat())

    async def _connect(self, dsn: str) -> asyncpg.Connection:
        connection = await connect(dsn)
        for noted in ("note_timeline", "note_synchronous"):
            await connection.execute(self._statements[noted].sql)
        # A whole test is one transaction here.
        await connection.execute(_WITHOUT_TIMEOUT)
        await connection.execute(_SHADOW)
        await connection.execute(_SHADOWED)
        return connection

    async def _savepoint(self, query: str, arguments: list[Any]) -> list[Row]:
        async with self.connection.transaction():
            return [Row(row) for row in await self.connection.fetch(query, *arguments)]

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Goes on while somebody waits."""
        return self._loop.create_task(work)

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(answer)


def of_stand_in(store: tables.Tables, table: str) -> list[dict[str, Any]]:
    """What the stand-in's table holds, in the same order."""
    kept: Any = getattr(store, table)
    kind = TABLES[table][1]
    rows = list(kept.values()) if isinstance(kept, dict) else list(kept)
    order = [part.strip() for part in TABLES[table][2].split(",")]
    rows.sort(key=lambda row: [getattr(row, part) for part in order])
    return [{one.name: getattr(row, one.name) for one in fields(kind)} for row in rows]


def history_of_stand_in(store: tables.Tables) -> list[dict[str, Any]]:
    own = ("outcome", "finished_at", "started_at", "error", "result")
    return [
        {name: getattr(ended.run, name) for name in _RUN_WHEN_IT_ENDED}
        | {name: getattr(ended, name) for name in own}
        for _, ended in sorted(store.history.items())
    ]


def dead_letters_of_stand_in(store: tables.Tables) -> list[dict[str, Any]]:
    own = ("outcome", "died_at", "error", "requeued_as", "requeued_at")
    return [
        {"run_id": run} | {name: getattr(letter, name) for name in own}
        for run, letter in sorted(store.dead_letters.items())
    ]


def _query(table: str, kind: type, order: str) -> str:
    columns = []
    for one in fields(kind):
        if one.name in _DURATIONS:
            columns.append(f"extract(epoch FROM {one.name})::float8 AS {one.name}")
        else:
            columns.append(f"{one.name}::text" if one.name in ("args", "retry") else one.name)
    return f"SELECT {', '.join(columns)} FROM pgcron.{table} ORDER BY {order}"


def _plain(row: asyncpg.Record) -> dict[str, Any]:
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in row.items()
    }
