"""Transactions of handlers in the product's own database, which end with the run's completion."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar
from uuid import UUID

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS, unavailable
from pgcron_ha.db.driver.link import answer_or_drop, unanswered
from pgcron_ha.db.driver.pool import HandlerPool, cut, has_ended
from pgcron_ha.db.driver.session_settings import TRANSACTION
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import from_sqlstate

Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]

T = TypeVar("T")

MARK_TRANSACTION: Final = "SET LOCAL pgcron_ha.transaction = 'open'"
"""It ends with the transaction in which it was set, whatever begins next; `finish_run` reads it."""


class TransactionEnded(Exception):
    """A statement of the run's own ended the transaction, and another one began after it."""


class HeldConnection:
    """A connection of a pool while it works for one run. Nothing may be done with it after
    `commit`, `roll_back` and `leave`.
    """

    def __init__(self, pool: HandlerPool, connection: Any) -> None:
        self.connection = connection
        """An `asyncpg.Connection`."""
        self.isolation: Isolation | None = None
        self._pool = pool
        self._transaction: Any = None
        self._is_over = False

    async def begin(self, isolation: Isolation | None = None) -> None:
        """All that follows is one transaction. Without an `isolation` it has the session's."""
        self.isolation = isolation
        self._transaction = self.connection.transaction(isolation=isolation)
        await self._answer(self._transaction.start())
        await self._answer(self.connection.execute(MARK_TRANSACTION))

    async def savepoint(self) -> Any:
        """Has ``commit()`` and ``rollback()``, of what comes from here on."""
        savepoint = self.connection.transaction()
        await savepoint.start()
        return savepoint

    async def finish(self, **values: Any) -> None:
        """The fenced completion, in this transaction; the values are those of ``finish_run``, but
        for the node. Raises what `_reported` makes of the refusal when the token does not hold the
        run any more, TransactionEnded, and Unanswered.
        """
        values["node"], finish = self._pool.node, self._pool.statements["finish_run"]
        arguments = [values[name] for name in finish.parameters]
        # Of a connection that is gone the driver says so.
        if has_ended(self.connection) or self.connection.is_in_transaction():
            row = await self._answer(self.connection.fetchrow(finish.sql, *arguments))
            if row["is_same"]:
                return
        raise TransactionEnded("a statement of the run's own ended its transaction")

    async def commit(self) -> None:
        """Raises Unanswered when it may have happened, other errors when it did not."""
        if self._transaction is not None:
            await self._answer(self._transaction.commit())
        self.leave()

    async def roll_back(self) -> None:
        """Raises nothing: what can't be rolled back is cut off, which is the same."""
        try:
            if self._transaction is not None:
                await self._answer(self._transaction.rollback())
        except Exception:
            cut(self.connection)
        self.leave()

    def drop(self) -> None:
        """Ends the connection at once, whatever is under way."""
        if not self._is_over:
            cut(self.connection)
            self.leave()

    def leave(self) -> None:
        """Gives the connection back; what it was given for is over."""
        if not self._is_over:
            self._is_over = True
            self._pool.give_back(self.connection)

    def _reported(self, error: Exception) -> BaseException:
        """The error to raise for one of the driver."""
        if isinstance(error, CONNECTION_ERRORS):
            cut(self.connection)
            return unanswered(error)
        if isinstance(error, asyncpg.PostgresError):
            # A `PgcronError` as it is; others as the handler's own statements raise them.
            own = from_sqlstate(error.sqlstate, error.message, error.detail, error.hint)
            return own or error
        return error

    async def _answer(self, sending: Awaitable[T]) -> T:
        try:
            return await answer_or_drop(sending, partial(cut, self.connection))
        except Exception as error:
            raise_own(error, self._reported(error))


def raise_own(error: BaseException, own: BaseException) -> NoReturn:
    """Raises `own`, which was made of an error of the driver, or is that error."""
    if own is error:
        raise error
    raise own from error


class Transactions(HandlerPool):
    """At most `most` at a time; further callers wait. Belongs to the loop that first uses it."""

    def __init__(self, dsn: str, most: int, schema: str = DEFAULT_SCHEMA, node: str = "") -> None:
        super().__init__(lambda: dsn, most, TRANSACTION, schema=schema, node=node)

    async def begin(
        self, run: int, token: UUID, elapsed: float, isolation: Isolation
    ) -> HeldConnection:
        """Begins one, `elapsed` seconds after its run's handler.

        Raises DatabaseUnavailable, or the server's error.
        """
        held = HeldConnection(self, await self.acquire())
        try:
            if isolation != "read_committed":
                # Its snapshot is taken at its beginning: a later write to the row makes it fail.
                # So a node writes to the row of a long run before that.
                mark = self.statements["mark_started"].sql
                await held.connection.fetch(mark, [run], [token], [elapsed])
            await held.begin(isolation)
        except BaseException as error:
            held.drop()
            if isinstance(error, CONNECTION_ERRORS):
                raise unavailable(error) from error
            raise
        return held
