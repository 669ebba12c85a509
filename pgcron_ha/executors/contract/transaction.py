"""The transaction of a ``transactional`` run: it commits effects and completion together.

The handler may take the connection from its context any number of times. Its work is committed with
the completion when it returns, and rolled back when it fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.db.driver.link import Unanswered
from pgcron_ha.db.driver.transactions import (
    HeldConnection,
    Isolation,
    TransactionEnded,
    Transactions,
)
from pgcron_ha.errors import Conflict, Fenced, InvalidInput
from pgcron_ha.executors.contract.assets import declared_of
from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.coroutines import submit, wait_uncancelled
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_error
from pgcron_ha.executors.contract.outcome import Committed, Doubtful, Failed, Outcome, Succeeded

_FLUSH_SECONDS: Final = 5.0


@dataclass(eq=False)
class RunTransaction:
    """At most one transaction, begun when the handler first asks for a connection.

    Everything in here happens on the handlers' loop; plain functions send their statements there.
    """

    context: Attempt
    transactions: Transactions
    loop: asyncio.AbstractEventLoop
    _held: HeldConnection | None = None
    _savepoint: Any = None
    _statement: Future[Any] | None = None
    _is_entered: bool = False
    _is_over: bool = False

    async def enter(self, isolation: Isolation) -> Any:
        """The connection, for one block of the handler."""
        if self._is_over or self._is_entered:
            raise Conflict(
                "the run has ended" if self._is_over else "the run's connection is in use",
                "A run has one connection, for one block at a time, until its handler returns.",
                "Do one after the other inside the handler.",
            )
        self._is_entered = True
        try:
            if self._held is None:
                self._held = await self._begin(isolation)
                self._savepoint = None
            elif isolation != self._held.isolation:
                raise InvalidInput(
                    f"isolation {isolation!r} after {self._held.isolation!r}",
                    "All blocks of a run are parts of one transaction.",
                    "Ask for the same isolation in all of them.",
                )
            else:
                self._savepoint = await self._held.savepoint()
        except BaseException:
            self._is_entered = False
            raise
        return self._held.connection

    async def leave(self, is_failed: bool) -> None:
        """The block is over; a failed one leaves nothing, and earlier ones as they were."""
        self._is_entered = False
        held, savepoint = self._held, self._savepoint
        if savepoint is not None:
            await (savepoint.rollback() if is_failed else savepoint.commit())
        elif is_failed and held is not None:
            self._held = None
            await held.roll_back()

    def interrupt(self) -> None:
        """Ends the statement that a plain function waits for. Thread-safe."""
        if (statement := self._statement) is not None:
            statement.cancel()

    def wait(self, sending: Coroutine[Any, Any, Any]) -> Any:
        """The answer to a statement, in the thread of a plain function. Raises Stopped."""
        try:
            self.context.check()
            self._statement = future = submit(self.loop, sending)
        except BaseException:
            sending.close()
            raise
        try:
            return future.result()
        except CancelledError:
            self.context.check()
            raise
        finally:
            self._statement = None

    def settle_in_thread(self, outcome: Outcome) -> Outcome:
        """As `settle`, for the thread of a plain function."""
        self._is_over = True
        return outcome if self._held is None else submit(self.loop, self.settle(outcome)).result()

    async def settle(self, outcome: Outcome) -> Outcome:
        """Commits a success together with the run's completion, rolls back anything else.

        Goes on when its task is cancelled, since a COMMIT must not be. `Doubtful` when its answer
        got lost, or the loop was ended meanwhile.
        """
        self._is_over = True
        held = self._held
        if held is None:
            return outcome
        settling = asyncio.ensure_future(self._settle(held, outcome))
        try:
            await wait_uncancelled(settling)  # asked to stop now is too late
            return settling.result()
        except BaseException as error:
            held.drop()
            return Doubtful("AnswerLost", f"{type(error).__name__} during the commit")

    async def _begin(self, isolation: Isolation) -> HeldConnection:
        self.context.check()
        claim = self.context.run_id, self.context.token, self.context.elapsed
        held = await self.transactions.begin(*claim, isolation)
        if self._is_over:  # something the handler left behind asked while it returned
            held.drop()
        return held

    async def _settle(self, held: HeldConnection, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Succeeded) and self._is_entered:
            message = "the handler returned while something of it still used the run's connection"
            outcome = Failed("ConnectionInUse", message)
        if isinstance(outcome, Succeeded):
            try:
                return await complete(held, self.context, outcome, outcome.text)
            except Fenced as error:
                outcome = Failed("Fenced", error.message)
            except Exception as error:
                outcome = outcome_of_error(error, self.context)
        await held.roll_back()
        return outcome


class TransactionBlock:
    """What `Context.connection` returns: ``async with`` it, or ``with`` it in a plain function."""

    __slots__ = ("_isolation", "_transaction")

    def __init__(self, transaction: RunTransaction, isolation: Isolation) -> None:
        if isolation not in ("read_committed", "repeatable_read", "serializable"):
            raise InvalidInput(
                f"isolation {isolation!r} is not known",
                "It is read_committed, repeatable_read or serializable.",
                "Leave it out for read_committed.",
            )
        self._transaction = transaction
        self._isolation = isolation

    async def __aenter__(self) -> Any:
        if asyncio.get_running_loop() is not self._transaction.loop:
            raise InvalidInput(
                "the connection belongs to another event loop",
                "A run's connection lives on the loop of async handlers.",
                "In a plain function write `with context.connection() as connection`.",
            )
        return await self._transaction.enter(self._isolation)

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        await self._transaction.leave(error is not None)

    def __enter__(self) -> PlainConnection:
        connection = self._transaction.wait(self._transaction.enter(self._isolation))
        return PlainConnection(self._transaction, connection)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        submit(self._transaction.loop, self._transaction.leave(error is not None)).result()


@dataclass(eq=False)
class PlainConnection:
    """The run's connection for a plain function: asyncpg's statements, each to its end.

    Placeholders are ``$1``, ``$2``; rows are asyncpg's records; errors are asyncpg's.
    """

    _transaction: RunTransaction
    _connection: Any

    def execute(self, query: str, *arguments: Any) -> str:
        """Executes a statement, or several without arguments; returns the last one's status."""
        return str(self._transaction.wait(self._connection.execute(query, *arguments)))

    def executemany(self, query: str, arguments: Any) -> None:
        """Executes a statement for each of the argument lists."""
        self._transaction.wait(self._connection.executemany(query, arguments))

    def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """All rows."""
        return list(self._transaction.wait(self._connection.fetch(query, *arguments)))

    def fetchrow(self, query: str, *arguments: Any) -> Any:
        """The first row, or None."""
        return self._transaction.wait(self._connection.fetchrow(query, *arguments))

    def fetchval(self, query: str, *arguments: Any) -> Any:
        """The first column of the first row, or None."""
        return self._transaction.wait(self._connection.fetchval(query, *arguments))


async def complete(
    held: HeldConnection, context: Attempt, outcome: Succeeded, result: Any
) -> Outcome:
    """Commits the run's effects together with its completion. ``result`` is the outcome's, as the
    connection takes it. Raises what `HeldConnection.finish` and `commit` raise; the answer to a
    COMMIT that got lost is a doubt.
    """
    services = context._services
    if context._log is not None and services is not None and services.flush is not None:
        # All of its lines are written first; lines that can't be kept do not undo the run.
        context._log.finish()
        flushed = asyncio.wrap_future(services.flush(context))
        await asyncio.wait({flushed}, timeout=_FLUSH_SECONDS)
        if flushed.done() and not flushed.cancelled():
            flushed.exception()
    try:
        declared = declared_of(context)
        await held.finish(
            run_id=context.run_id,
            token=str(context.token),
            elapsed=context.elapsed,
            result=result if context.keeps_result else None,
            keep_args=context.keeps_args,
            declared=declared and json.dumps(declared),
        )
        await held.commit()
    except Unanswered as error:
        held.drop()
        return Doubtful("AnswerLost", bounded_text(f"{error.message}: {error.detail}"))
    except TransactionEnded as error:
        await held.roll_back()
        return Failed("TransactionEnded", str(error), retry=False)
    return Committed(outcome.result, outcome.text)
