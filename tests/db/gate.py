"""A gate in the middle of statements: behind their snapshot, before their row locks.

Races inside one statement depend on what is committed between the two. A row policy on ``run``,
which the rows pass one by one, waits there for an advisory lock that the test holds. Only the
gate's own role is under the policy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.db.control import Connection, waits_for_lock
from tests.product.db import connect

_KEY = 4711


class Gate:
    """`closed()` shuts it; `visitor()` makes a connection that stops there."""

    def __init__(self, dsn: str, keeper: Connection) -> None:
        self._dsn = dsn
        self._keeper = keeper
        self._visitors: list[Connection] = []
        self._role = ""

    async def build(self) -> None:
        """Make role, function and policy."""
        self._role = f"visitor_{await self._keeper.fetchval('SELECT current_database()')}"
        await self._keeper.execute(f"""
            CREATE ROLE {self._role};
            GRANT USAGE ON SCHEMA pgcron TO {self._role};
            GRANT ALL ON ALL TABLES IN SCHEMA pgcron TO {self._role};
            GRANT ALL ON ALL SEQUENCES IN SCHEMA pgcron TO {self._role};
            GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgcron TO {self._role};
            CREATE FUNCTION public.pass_gate() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
              'BEGIN PERFORM pg_advisory_xact_lock_shared({_KEY}); RETURN true; END';
            ALTER TABLE pgcron.run ENABLE ROW LEVEL SECURITY;
            CREATE POLICY gate ON pgcron.run USING (public.pass_gate()) WITH CHECK (true);
        """)

    async def visitor(self) -> Connection:
        """A control connection whose statements stop at the gate while it is closed."""
        visitor = await connect(self._dsn)
        await visitor.execute(f"SET ROLE {self._role}")
        self._visitors.append(visitor)
        return visitor

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Nobody passes meanwhile."""
        await self._keeper.execute(f"SELECT pg_advisory_lock({_KEY})")
        try:
            yield
        finally:
            await self._keeper.execute(f"SELECT pg_advisory_unlock({_KEY})")

    async def reached_by(self, visitor: Connection) -> None:
        """Return when the visitor's statement stands at the gate."""
        await waits_for_lock(self._keeper, visitor)

    async def remove(self) -> None:
        """The role belongs to the server, which other tests use too."""
        for visitor in self._visitors:
            await visitor.close(timeout=5)
        await self._keeper.execute(f"DROP OWNED BY {self._role} CASCADE; DROP ROLE {self._role}")
