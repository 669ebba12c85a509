"""A few connections of one kind, made when they are needed: of an App, of pages, of handlers.

What handlers do must never keep a node from its leases and completions, so each purpose has a pool
of its own. A page reads in one short read-only transaction: everything it sees is of one moment,
and no page can write, whatever its code does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import asyncpg

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS, connect, reaching
from pgcron_ha.db.driver.pooling import ClientConnection
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.db.driver.scopes import enter
from pgcron_ha.db.driver.session_settings import CLIENT, PAGE_TIMEOUT_MS, PAGES, SessionSettings
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import DatabaseUnavailable

Connection: TypeAlias = asyncpg.Connection

# Each enqueue holds one for a millisecond, and pages share the result of a view: more connections
# would only queue in the database.
MOST_CONNECTIONS: Final = 4
_CONNECT_SECONDS: Final = 10.0
# After the server should have stopped a page's statement, the connection is taken for dead.
_ANSWER_SECONDS: Final = PAGE_TIMEOUT_MS / 1000 + 2
# Then it is the pool's, which closes what nobody uses for some minutes.
_SPARE_SECONDS: Final = 60.0
_RELEASE_SECONDS: Final = 10.0
# What asyncpg's own reset leaves as the handler made it.
_TIDY: Final = "SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP; "


class PoolUse(NamedTuple):
    """How many connections are open, and how many of them nobody uses."""

    open: int
    idle: int


class Pool:
    """At most `most` connections at a time; further callers wait. Belongs to the loop that first
    uses it.
    """

    idle_seconds: ClassVar[float] = 300.0
    """What nobody uses for so long is closed."""
    close_seconds: ClassVar[float] = 3.0
    """So long `close` waits for those that are in use."""

    def __init__(
        self, dsn: Callable[[], str], most: int, settings: SessionSettings, **options: Any
    ) -> None:
        """`dsn` is asked before each connection is made; `options` are those of `connect`."""
        self._dsn = dsn
        self._most = most
        self._settings = settings
        self._options = options
        self._pool: Any = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def acquire(self, seconds: float | None = None) -> Any:
        """A connection of asyncpg's; waits for it up to `seconds`. Raises DatabaseUnavailable."""
        with reaching():
            if self._pool is None:
                # It makes no connection yet, so nobody else comes between and makes another pool.
                self._pool = await asyncpg.create_pool(
                    connect=self._connect,
                    connection_class=ClientConnection,
                    init=self._prepare,
                    reset=self._tidy,
                    min_size=0,
                    max_size=self._most,
                    max_inactive_connection_lifetime=self.idle_seconds,
                )
            try:
                return await self._pool.acquire(timeout=seconds)
            except TimeoutError as error:
                if seconds is None:
                    raise
                raise DatabaseUnavailable(
                    "the database does not answer",
                    f"No connection was free or could be made within {seconds:g} s.",
                    "Try again in a moment.",
                ) from error

    async def release(self, connection: Any) -> None:
        """Takes it back, tidied up; one that is of no more use is dropped."""
        if self._pool is not None:
            try:
                await self._pool.release(connection, timeout=_RELEASE_SECONDS)
            except Exception:  # the pool makes another one
                cut(connection)

    def give_back(self, connection: Any) -> None:
        """As `release`, not awaited: the next run must not wait for the tidying up after this."""
        task = asyncio.ensure_future(self.release(connection))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def use(self) -> PoolUse:
        """How the connections are used right now."""
        if self._pool is None:
            return PoolUse(0, 0)
        return PoolUse(self._pool.get_size(), self._pool.get_idle_size())

    async def close(self) -> None:
        """Ends all connections, those in use after `close_seconds`; the next use opens them
        again.
        """
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), self.close_seconds)
            except CONNECTION_ERRORS:  # a time-out is one of them
                self._pool.terminate()
            finally:
                self._pool = None

    async def _connect(self, *_: Any, **__: Any) -> Any:
        # What the driver's pool would give its own function is all here.
        return await connect(self._dsn(), self._settings, **self._options)

    async def _prepare(self, connection: Any) -> None:
        """What is done with a new connection before its first use."""

    async def _tidy(self, connection: Any) -> None:
        """What is done with one that comes back. Not the driver's RESET, which would undo the
        settings: our own statements leave nothing behind.
        """


class HandlerPool(Pool):
    """Connections that handlers use as they like: nothing of one user's session reaches the next
    one.
    """

    idle_seconds = 60.0
    close_seconds = 1.0

    def __init__(
        self, *arguments: Any, schema: str = DEFAULT_SCHEMA, node: str = "", **options: Any
    ) -> None:
        """`node` is the name that runs keep which are completed on them."""
        super().__init__(*arguments, **options)
        self.schema = schema
        self.statements = load(schema)
        self.node = node

    async def _tidy(self, connection: Any) -> None:
        if not connection.is_pooled:  # else its session is another's by now
            # The pool has rolled back and forgotten listeners before. All of it in one round trip.
            major = connection.get_server_version().major
            settings = self._settings.in_session(major, is_pooled=False)
            await connection.execute(f"{connection.get_reset_query()}\n{_TIDY}{settings}")


def cut(connection: Any) -> None:
    """Ends a connection at once, whatever is under way on it."""
    with suppress(asyncpg.InterfaceError):  # it broke before, and the pool took it back
        connection.terminate()


def has_ended(connection: Any) -> bool:
    """Whether one of a pool has been closed, by whomever; the pool knows it then."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool took it back
        return True


@asynccontextmanager
async def tried(connection: Connection, *, keep: bool) -> AsyncIterator[None]:
    """One transaction, committed only to `keep` it: what the database would say to a dry run."""
    transaction = connection.transaction(isolation="read_committed")
    await transaction.start()
    try:
        yield
    except BaseException:
        await transaction.rollback()
        raise
    await (transaction.commit() if keep else transaction.rollback())


class ClientPool(Pool):
    """A pool whose last used connection stays at hand for a while: to give it back and take it
    again costs a program more than all else that an enqueue does on its side.
    """

    def __init__(self, dsn: str) -> None:
        super().__init__(lambda: dsn, MOST_CONNECTIONS, CLIENT)
        self._until_loop_ends: AsyncGenerator[None] | None = None
        self._spare: Any = None
        self._waiting = 0
        self._retiring: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection, made when none is free. Raises DatabaseUnavailable."""
        connection, self._spare = self._spare, None
        if connection is None or has_ended(connection):
            self._waiting += 1
            try:
                connection = await self.acquire(_CONNECT_SECONDS)
            finally:
                self._waiting -= 1
        try:
            yield connection
        except BaseException:
            await self.release(connection)  # whatever was left under way ends first
            raise
        if self._spare is not None or self._waiting or self._pool is None:
            await self.release(connection)
            return
        self._spare = connection
        if self._retiring is None:
            loop = asyncio.get_running_loop()
            self._retiring = loop.call_later(_SPARE_SECONDS, self._retire)

    async def close(self) -> None:
        """As its base."""
        if self._retiring is not None:
            self._retiring.cancel()
            self._retire()
        await super().close()

    async def _connect(self, *_: Any, **__: Any) -> Any:
        if self._until_loop_ends is None:
            self._until_loop_ends = self._close_with_loop()
            await anext(self._until_loop_ends)
        return await super()._connect()

    async def _close_with_loop(self) -> AsyncGenerator[None]:
        # A program may call asyncio.run for each enqueue, which ends generators before the loop:
        # nothing could close the connections after it.
        try:
            yield
        finally:
            await self.close()

    def _retire(self) -> None:
        connection, self._spare, self._retiring = self._spare, None, None
        if connection is not None:
            self.give_back(connection)


class ReadPool(Pool):
    """Read-only transactions on a few connections, which are made when they are needed.

    Belongs to the event loop of its first use.
    """

    def __init__(self, dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
        self._schema = schema
        super().__init__(
            lambda: dsn, MOST_CONNECTIONS, PAGES, timeout=3.0, command_timeout=_ANSWER_SECONDS
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A connection inside a read-only transaction that sees one moment, within the scopes of
        the person who asks.

        Raises DatabaseUnavailable, SchemaError (the schema is missing or too old), Conflict (a
        statement took too long), and what else `pgcron_ha.db.driver.answers` makes of an error
        inside.
        """
        connection = await self.acquire(_ANSWER_SECONDS)
        try:
            with answers():
                async with _one_moment(connection):
                    await enter(connection)
                    yield connection
        finally:
            await self.release(connection)

    async def _prepare(self, connection: Any) -> None:
        async with _one_moment(connection):
            await require_revision(connection, self._schema)


def _one_moment(connection: Any) -> Any:
    return connection.transaction(isolation="repeatable_read", readonly=True)
