"""Transactions of handlers in the product's own database, which end with the run's completion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Literal, TypeAlias, TypeVar
from uuid import UUID

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS, unavailable
from pgcron_ha.db.driver.handler_pool import ANSWER_SECONDS, HandlerPool, answer_or_cut, cut
from pgcron_ha.db.driver.link import Unanswered
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.session_settings import TRANSACTION
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load
from pgcron_ha.errors import from_sqlstate

Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]

T = TypeVar("T")


MARK_TRANSACTION: Final = "SET LOCAL pgcron_ha.transaction = 'open'"
"""Gone with the transaction in which it was said, whatever begins after it; `finish_run` reads it.
"""


class TransactionEnded(Exception):
    """A statement of the run's own ended the transaction, and another one began after it."""


class Transactions:
    """At most `most` at a time; who comes then waits. Belongs to the loop that first uses it."""

    def __init__(self, dsn: str, most: int, schema: str = DEFAULT_SCHEMA, node: str = "") -> None:
        """`node` is the name that completed runs keep."""
        self._dsn = dsn
        self._pool = HandlerPool(lambda: dsn, most, TRANSACTION)
        self._node = node
        statements = load(schema)
        self._finish = statements["finish_run"].sql
        self._mark = statements["mark_started"].sql
        self._previous = statements["previous_result"].sql

    async def begin(self, run: int, token: UUID, elapsed: float, isolation: Isolation) -> Open:
        """Begins one, `elapsed` seconds after its run's handler.

        Raises DatabaseUnavailable, or the server's error.
        """
        connection = await self._pool.acquire()
        try:
            if isolation != "read_committed":
                # Its snapshot is of its beginning: whoever writes the row afterwards ends it. So
                # what a node writes into the row of a run that lasts is written before.
                await connection.fetch(self._mark, [run], [token], [elapsed])
            transaction = connection.transaction(isolation=isolation)
            await transaction.start()
            begin = MARK_TRANSACTION
            if was_pooled(self._dsn):
                major = connection.get_server_version().major
                begin += "; " + TRANSACTION.in_transaction(major)
            await connection.execute(begin)
        except BaseException as error:
            cut(connection)
            self._pool.give_back(connection)
            if isinstance(error, CONNECTION_ERRORS):
                raise unavailable(error) from error
            raise
        return Open(self, connection, transaction, isolation)

    async def previous(self, run: int) -> Any:
        """The row of ``previous_result``, or None. Raises DatabaseUnavailable, also where all
        connections are in use for long.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = await self._pool.acquire()
                try:
                    return await connection.fetchrow(self._previous, run)
                except BaseException:
                    cut(connection)
                    raise
                finally:
                    self._pool.give_back(connection)
        except CONNECTION_ERRORS as error:
            raise unavailable(error) from error

    async def close(self) -> None:
        """Ends all connections, at once those that are in use."""
        await self._pool.close()

    def give_back(self, connection: Any) -> None:
        """Its transaction is over, or it is broken."""
        self._pool.give_back(connection)

    def finish_arguments(
        self, run: int, token: UUID, elapsed: float, result: str | None
    ) -> tuple[Any, ...]:
        """The statement of a fenced completion, and its arguments."""
        return (self._finish, run, token, elapsed, result, self._node)


class Open:
    """A transaction under way. Nothing may be done with it after `commit` and `roll_back`."""

    def __init__(
        self, transactions: Transactions, connection: Any, transaction: Any, isolation: Isolation
    ) -> None:
        self.connection = connection
        """An `asyncpg.Connection`, for the handler."""
        self.isolation = isolation
        self._transactions = transactions
        self._transaction = transaction
        self._is_over = False

    @property
    def was_ended(self) -> bool:
        """Whether somebody ended it with a statement of their own."""
        try:
            return not self.connection.is_closed() and not self.connection.is_in_transaction()
        except asyncpg.InterfaceError:  # the connection broke, and the pool took it back
            return False

    async def savepoint(self) -> Any:
        """Has ``commit()`` and ``rollback()``, of what comes from here on."""
        savepoint = self.connection.transaction()
        await savepoint.start()
        return savepoint

    async def finish(self, run: int, token: UUID, elapsed: float, result: str | None) -> None:
        """The fenced completion: raises Fenced when the token does not hold the run any more,
        TransactionEnded, and Unanswered.
        """
        statement = self._transactions.finish_arguments(run, token, elapsed, result)
        row = await self._answer(self.connection.fetchrow(*statement))
        if not row["is_same"]:
            raise TransactionEnded

    async def commit(self) -> None:
        """Raises Unanswered when it may have happened, other errors when it did not."""
        await self._answer(self._transaction.commit())
        self._leave()

    async def roll_back(self) -> None:
        """Raises nothing: what can't be rolled back is cut off, which is the same."""
        try:
            await self._answer(self._transaction.rollback())
        except Exception:
            cut(self.connection)
        self._leave()

    def drop(self) -> None:
        """Ends the connection at once, whatever is under way."""
        if not self._is_over:
            cut(self.connection)
            self._leave()

    def _leave(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._transactions.give_back(self.connection)

    async def _answer(self, sending: Awaitable[T]) -> T:
        try:
            return await answer_or_cut(sending, self.connection)
        except CONNECTION_ERRORS as error:
            cut(self.connection)
            raise Unanswered(
                "the connection to the database broke", f"{type(error).__name__}: {error}"
            ) from error
        except asyncpg.PostgresError as error:
            # Errors of ours as such; others as the handler's own statements raise them.
            own = from_sqlstate(error.sqlstate, error.message, error.detail, error.hint)
            raise own or error from error
