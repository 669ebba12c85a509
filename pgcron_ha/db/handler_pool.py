"""Connections that handlers use: a small pool of its own for each purpose, opened when needed.

What handlers do must never keep a node from its leases and completions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from pgcron_ha.db.connecting import CONNECTION_ERRORS, KEEPALIVES, prepare_connection, unavailable
from pgcron_ha.db.hosts import CONNECT

_RESET_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
_UNUSED_SECONDS: Final = 60.0
# SET after connecting, not start-up parameters, which a transaction pooler may refuse.
_SETTINGS: Final = f"SET application_name = 'pgcron_ha handler'; SET timezone = 'UTC'; {KEEPALIVES}"
# What asyncpg's own reset leaves as the handler made it.
_TIDY: Final = "SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP; "


class HandlerPool:
    """At most `most` connections at a time; who comes then waits. Belongs to the loop that first
    uses it. Nothing of one user's session reaches the next one.
    """

    def __init__(
        self,
        dsn: Callable[[], str],
        most: int,
        settings: str,
        prepare: Callable[[Any], Awaitable[None]] | None = None,
        password: Callable[[], str] | None = None,
    ) -> None:
        """`settings` are commands for every session; `prepare` is called once for each, `password`
        before each is made.
        """
        self._dsn = dsn
        self._most = most
        self._settings = f"{_SETTINGS}; {settings}"
        self._prepare_more = prepare
        self._password = password
        self._pool: Any = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def acquire(self) -> Any:
        """A connection of asyncpg's. Raises DatabaseUnavailable, or the server's error."""
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                self._dsn(),
                connect=CONNECT,
                password=self._password,
                min_size=0,
                max_size=self._most,
                max_inactive_connection_lifetime=_UNUSED_SECONDS,
                timeout=_CONNECT_SECONDS,
                init=self._prepare,
                reset=self._tidy,
            )
        try:
            await self._pool
            return await self._pool.acquire()
        except CONNECTION_ERRORS as error:
            raise unavailable(error) from error

    def give_back(self, connection: Any) -> None:
        """Not awaited: the next run must not wait for the tidying up after this one."""
        if self._pool is not None:
            task = asyncio.ensure_future(self._release(self._pool, connection))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Ends all connections, at once those that are in use."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), _CLOSE_SECONDS)
            except CONNECTION_ERRORS:  # a time-out is one of them
                pool.terminate()

    async def _release(self, pool: Any, connection: Any) -> None:
        try:
            await pool.release(connection, timeout=_RESET_SECONDS)
        except Exception:  # it is of no more use; the pool makes another one
            cut(connection)

    async def _prepare(self, connection: Any) -> None:
        await prepare_connection(connection, is_control=False)
        await connection.execute(self._settings)
        if self._prepare_more is not None:
            await self._prepare_more(connection)

    async def _tidy(self, connection: Any) -> None:
        # The pool has rolled back and forgotten listeners before. All of it in one round trip.
        await connection.execute(f"{connection.get_reset_query()}\n{_TIDY}{self._settings}")


def cut(connection: Any) -> None:
    """Ends a connection at once, whatever is under way on it."""
    try:
        connection.terminate()
    except asyncpg.InterfaceError:
        pass  # it broke before, and the pool took it back
