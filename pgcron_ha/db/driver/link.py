"""One control connection of a node: sends named statements, reconnects, and says what an error
means.

A statement that got no answer has an unknown outcome (`Unanswered`): it may have happened. It is
never cancelled, since a cancel request can make a waiting COMMIT visible without its standby; the
connection is dropped instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import asyncpg

from pgcron_ha.db.driver.answers import explain_answer
from pgcron_ha.db.driver.connecting import (
    CONNECTION_ERRORS,
    LOST_STATEMENTS,
    READ_ONLY_HINT,
    RETRYABLE_ERRORS,
    TAKES_NO_WRITES,
    connect,
    unavailable,
)
from pgcron_ha.db.driver.pooling import distrust_statements, was_pooled
from pgcron_ha.db.driver.session_settings import CONTROL, STATEMENT_TIMEOUT_MS
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import DatabaseUnavailable, PgcronError

T = TypeVar("T")
Row = asyncpg.Record

HANDLER_ANSWER_SECONDS: Final = 10.0
"""For handlers' statements; also for a COMMIT that waits for a synchronous standby."""

# The server ends a statement after its timeout; this much later the connection is taken for dead.
_ANSWER_SECONDS: Final = STATEMENT_TIMEOUT_MS / 1000 + 2
_CONNECT_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 2.0
# A statement without an answer after this time may be waiting for a lock.
_PATIENCE: Final = 1.0
_WITNESS_SECONDS: Final = 0.5

IMPATIENT: ContextVar[bool] = ContextVar("impatient", default=False)
"""Whether statements of this task wait for locks a fifth of a second only, and are ended after half
of their time."""

_IMPATIENCE: Final = (
    f"SET LOCAL lock_timeout = 200; SET LOCAL statement_timeout = {STATEMENT_TIMEOUT_MS // 2}"
)


class Unanswered(DatabaseUnavailable):
    """The connection broke while a statement was under way: whether it happened is unknown."""


class Busy(PgcronError):
    """Nothing happened (a deadlock, a lock or statement timeout): the same statement may be sent
    again.
    """


class TableBusy(Busy):
    """It waited for a lock of a table, not of a row: the next statement will wait for it, too."""


class NoPartition(PgcronError):
    """Nothing happened: a row found no partition."""


class Link:
    """A connection that is made when it is needed and again after it broke; one statement at a
    time.
    """

    def __init__(
        self,
        dsn: str,
        schema: str = DEFAULT_SCHEMA,
        answer_seconds: float = _ANSWER_SECONDS,
        joins_by_hash: bool = False,
        greeting: str | None = None,
        revision: str | None = None,
        title: str = CONTROL.title,
    ) -> None:
        """`answer_seconds`: a connection without an answer for this time is taken for dead.

        `joins_by_hash` is for statements that join long arrays with a table: a plan is made without
        knowing how long they are, and nested loops over two of them would be quadratic.

        `greeting` names a statement without parameters that goes first on every new connection.

        `revision` is the schema's: of statements with variants the fitting ones are sent.

        `title` is how the server calls its session: application_name of pg_stat_activity.
        """
        planning = ("enable_nestloop = off", "enable_mergejoin = off") if joins_by_hash else ()
        self._settings = CONTROL._replace(title=title, local=(*CONTROL.local, *planning))
        self._dsn = dsn
        self._answer_seconds = answer_seconds
        self._schema = schema
        self._statements = load(schema, revision)
        self._greeting = None if greeting is None else self._statements[greeting].sql
        self._connection: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()
        self.witness: Callable[..., Awaitable[list[Row]]] | None = None
        """The `rows` of another link; it finds the sessions that block a statement of this one."""
        self.opened = 0
        """How often a connection was made."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def is_pooled(self) -> bool:
        """Whether it goes through a pooler; known after the first connection."""
        return was_pooled(self._dsn)

    def use_revision(self, revision: str | None) -> None:
        """From now on statements are those for a schema at this revision."""
        if revision is not None and revision != self._statements.revision:
            self._statements = load(self._schema, revision)

    async def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """The rows of one named statement, in a transaction of its own.

        Raises Unanswered (may have happened), Busy or NoPartition (did not happen),
        DatabaseUnavailable (no connection), SchemaError (the schema is too old for it), or the
        `PgcronError` that the statement raised.
        """
        async with self._lock:
            try:
                return await self._send(name, parameters)
            except PgcronError as error:
                if not isinstance(error.__cause__, asyncpg.ProgramLimitExceededError):
                    raise
            # At the COMMIT the server's queue of notifications had become full, and nothing has
            # happened. `pgcron.notify` sees it now, and leaves the notification out.
            return await self._send(name, parameters)

    async def value(self, name: str, /, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        rows = await self.rows(name, **parameters)
        return rows[0][0] if rows else None

    async def execute(self, command: str) -> None:
        """A command without parameters that can't be a named statement (VACUUM of a partition).
        Not in a transaction, which it refuses.
        """
        await self.check(lambda connection: asyncpg.Connection.execute(connection, command))

    async def check(self, judge: Callable[[asyncpg.Connection], Any]) -> Any:
        """Opens the connection and lets `judge` look at it; what it finds or raises comes back."""
        async with self._lock:
            return await self._answer(judge(await self._open()))

    async def listen(
        self, heard: Callable[[str], None], channel: str = "channel", insists: bool = False
    ) -> bool:
        """Calls `heard` with the payload of every notification on this installation's channel,
        until the connection breaks. `channel` names the statement that gives the channel's name.

        Returns False through a pooler: there LISTEN succeeds, and nothing ever comes. Unless it is
        one that gives each client a session of its own, which `insists` is to try.
        """
        async with self._lock:
            connection = await self._open()
            if self.is_pooled and not insists:
                return False
            name = await self._answer(connection.fetchval(self._statements[channel].sql))
            await self._answer(connection.add_listener(name, lambda *event: heard(str(event[3]))))
            return True

    async def wait_closed(self) -> None:
        """Returns when the connection is gone."""
        connection = self._connection
        if connection is None or connection.is_closed():
            return
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await gone.wait()

    async def close(self) -> None:
        """Ends the connection; waits a bounded time for it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*CONNECTION_ERRORS):  # the driver has ended it then
                await connection.close(timeout=_CLOSE_SECONDS)

    def drop(self) -> None:
        """Ends the connection at once, whatever is under way."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _send(self, name: str, parameters: dict[str, Any]) -> list[Row]:
        statement = self._statements[name]
        arguments = [parameters[key] for key in statement.parameters]
        connection = await self._open()
        rows: list[Row] = await self._answer(
            _impatiently(connection, statement.sql, arguments)
            if IMPATIENT.get()
            else connection.fetch(statement.sql, *arguments)
        )
        return rows

    async def _open(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            try:
                async with asyncio.timeout(min(_CONNECT_SECONDS, self._answer_seconds)):
                    self._connection = await self._connect()
                    self.opened += 1
            except CONNECTION_ERRORS as error:
                raise unavailable(error) from error
            except LOST_STATEMENTS as error:
                distrust_statements(self._dsn)
                raise unavailable(error) from error
            except asyncpg.PostgresError as error:
                raise explain_answer(error) or error from error
        return self._connection

    async def _connect(self) -> asyncpg.Connection:
        connection = await connect(
            self._dsn, self._settings, timeout=_CONNECT_SECONDS, keeps_statements=True
        )
        try:
            if self._greeting is not None:
                await connection.fetch(self._greeting)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _answer(self, sending: Any) -> Any:
        blockers: list[Row] = []

        async def look() -> None:
            blockers.extend(await self._blockers())

        try:
            return await answer_or_drop(sending, self.drop, self._answer_seconds, look)
        except RETRYABLE_ERRORS as error:
            kind = TableBusy if any(row["is_of_table"] for row in blockers) else Busy
            names = "".join(f"; it waited for {row['name']}" for row in blockers)
            raise kind(f"{error}{names}", f"SQLSTATE {getattr(error, 'sqlstate', None)}") from error
        except asyncpg.ReadOnlySQLTransactionError as error:
            self.drop()
            raise Unanswered(TAKES_NO_WRITES, str(error), READ_ONLY_HINT) from error
        except LOST_STATEMENTS as error:
            distrust_statements(self._dsn)
            self.drop()
            raise Busy(str(error), "A pooler between lost what was prepared.") from error
        except CONNECTION_ERRORS as error:
            self.drop()
            raise unanswered(error) from error
        except asyncpg.PostgresError as error:
            is_check = isinstance(error, asyncpg.CheckViolationError)
            if is_check and error.constraint_name is None and "no partition" in str(error):
                raise NoPartition(str(error)) from error
            raise explain_answer(error) or error from error

    async def _blockers(self) -> list[Row]:
        """The sessions that block the current statement, found over another link; none if
        unknown.
        """
        if self.witness is None or self._connection is None:
            return []
        process_id = None if self.is_pooled else self._connection.get_server_pid()
        asking = asyncio.ensure_future(
            self.witness("list_blockers", process_id=process_id, title=self._settings.title)
        )
        asking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait({asking}, timeout=_WITNESS_SECONDS)
        if not asking.done() or asking.exception() is not None:
            return []
        return asking.result()


async def answer_or_drop(
    sending: Awaitable[T],
    drop: Callable[[], None],
    seconds: float = HANDLER_ANSWER_SECONDS,
    when_slow: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """The answer to what is being sent. That is never cancelled: a cancel request can make a
    COMMIT visible that waits for its standby. After `seconds`, or when the waiting task is
    cancelled, `drop` ends the connection. `when_slow` is called after a second without an answer.

    Raises Unanswered, and the driver's errors.
    """
    task = asyncio.ensure_future(sending)
    is_answered = False
    try:
        if when_slow is not None:
            await asyncio.wait({task}, timeout=min(_PATIENCE, seconds))
            seconds = max(0.0, seconds - _PATIENCE)
            if not task.done():
                await when_slow()
        if not task.done():
            await asyncio.wait({task}, timeout=seconds)
        is_answered = task.done()
    finally:
        if not is_answered:
            drop()
            # Nobody awaits its own error any more.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    if not is_answered:
        raise Unanswered("the database did not answer in time", "It may have happened.")
    return task.result()


async def _impatiently(
    connection: asyncpg.Connection, command: str, arguments: Sequence[Any]
) -> list[Row]:
    async with connection.transaction(isolation="read_committed"):
        await connection.execute(_IMPATIENCE)
        rows: list[Row] = await connection.fetch(command, *arguments)
        return rows


def unanswered(error: BaseException) -> Unanswered:
    """For a connection that broke under a statement: whether it happened is unknown."""
    return Unanswered("the connection to the database broke", f"{type(error).__name__}: {error}")
