"""Connections that handlers use: a small pool of its own for each purpose, opened when needed.

What handlers do must never keep a node from its leases and completions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS, prepare_connection, unavailable
from pgcron_ha.db.driver.link import Unanswered
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.pools import close_pool, make_pool
from pgcron_ha.db.driver.session_settings import SessionSettings
from pgcron_ha.errors import DatabaseUnavailable

T = TypeVar("T")

ANSWER_SECONDS: Final = 10.0
"""Also of a COMMIT that waits for a synchronous standby."""

_RESET_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
_UNUSED_SECONDS: Final = 60.0
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
        settings: SessionSettings,
        prepare: Callable[[Any], Awaitable[None]] | None = None,
        password: Callable[[], str] | None = None,
        needs_session: bool = False,
    ) -> None:
        """`prepare` is called once for each session, `password` before each is made. With
        `needs_session` a pooler that hands sessions around is refused.
        """
        self._dsn = dsn
        self._most = most
        self._settings = settings
        self._prepare_more = prepare
        self._password = password
        self._needs_session = needs_session
        self._is_pooled = False
        self._pool: Any = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def acquire(self) -> Any:
        """A connection of asyncpg's. Raises DatabaseUnavailable, or the server's error."""
        try:
            if self._pool is None:
                await self._make()
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
            await close_pool(pool, _CLOSE_SECONDS)

    async def _make(self) -> None:
        dsn = self._dsn()
        made = await make_pool(
            dsn,
            self._most,
            prepare=self._prepare,
            seconds=_CONNECT_SECONDS,
            tidy=self._tidy,
            password=self._password,
            max_inactive_connection_lifetime=_UNUSED_SECONDS,
        )
        self._is_pooled = was_pooled(dsn)
        if self._is_pooled and self._needs_session:
            raise DatabaseUnavailable(
                "this DSN leads through a pooler that hands sessions around",
                "A session's settings would be left to others, and others' statements be ended.",
                "Point it at the server itself.",
            )
        if self._pool is None:  # nobody else has made it meanwhile
            self._pool = made

    async def _release(self, pool: Any, connection: Any) -> None:
        try:
            await pool.release(connection, timeout=_RESET_SECONDS)
        except Exception:  # it is of no more use; the pool makes another one
            cut(connection)

    async def _prepare(self, connection: Any) -> None:
        await prepare_connection(connection, self._settings, is_pooled=self._is_pooled)
        if self._prepare_more is not None:
            await self._prepare_more(connection)

    async def _tidy(self, connection: Any) -> None:
        if self._is_pooled:
            return  # the session is another's by now
        # The pool has rolled back and forgotten listeners before. All of it in one round trip.
        major = connection.get_server_version().major
        settings = self._settings.in_session(major, is_pooled=False)
        await connection.execute(f"{connection.get_reset_query()}\n{_TIDY}{settings}")


async def answer_or_cut(sending: Awaitable[T], connection: Any) -> T:
    """The answer to what is being sent, which is never cancelled: a cancel request can make a
    COMMIT visible that waits for its standby. After `ANSWER_SECONDS` the connection is cut.

    Raises Unanswered, and the driver's errors.
    """
    task = asyncio.ensure_future(sending)
    done, _ = await asyncio.wait({task}, timeout=ANSWER_SECONDS)
    if not done:
        cut(connection)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise Unanswered("the database did not answer in time", "It may have happened.")
    return task.result()


def cut(connection: Any) -> None:
    """Ends a connection at once, whatever is under way on it."""
    try:
        connection.terminate()
    except asyncpg.InterfaceError:
        pass  # it broke before, and the pool took it back
