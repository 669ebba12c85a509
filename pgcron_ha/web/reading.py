"""Reads that viewers share: one read of the database for all who look at the same page.

A snapshot lives for about a second, and requests that come while it is being read wait for that
read: fifty open overviews cost what one costs. When the database can't be read, the last snapshot
is shown, with the reason and its age.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pgcron_ha.db.driver.pool import Connection, ReadPool
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.blocking import blocking_sessions, naming
from pgcron_ha.db.queries.overview import database_time
from pgcron_ha.errors import Conflict, DatabaseUnavailable, PgcronError, SchemaError
from pgcron_ha.web.metrics import WebMetrics

T = TypeVar("T")
Read: TypeAlias = Callable[[Connection], Awaitable[T]]
Key: TypeAlias = tuple[Any, ...]

LIFE_SECONDS: Final = 1.0
# Probes come from many sides; none of them makes the database answer more often than this.
CHECK_LIFE_SECONDS: Final = 2.0
# A probe gives up after a second, and must not take silence for an answer.
CHECK_SECONDS: Final = 0.8
# Pause between reads after a failure, so that a database that starts is not flooded.
PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0
# Views that are remembered: the pages that people have open, and some more. What is large is not:
# it would be held so many times.
MOST_SNAPSHOTS: Final = 200

_AWAY: Final = (DatabaseUnavailable, SchemaError, Conflict)


@dataclass(frozen=True)
class Snapshot(Generic[T]):
    """What was read, and its age.

    ``now`` is the database's clock at this moment, ``read_at`` was its clock at the read;
    ``problem`` says why it could not be read again (None: it is fresh).
    """

    value: T
    now: datetime
    read_at: datetime
    problem: PgcronError | None = None


@dataclass
class _Entry:
    value: Any
    at: datetime
    read: float


class Reader:
    """Reads for pages, shares what was read, and remembers it. Belongs to one event loop."""

    def __init__(self, dsn: str, metrics: WebMetrics, schema: str = DEFAULT_SCHEMA) -> None:
        self.schema = schema
        self.pool = ReadPool(dsn, schema)
        self._metrics = metrics
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._flights: dict[Key, asyncio.Task[_Entry]] = {}
        self._written = 0.0
        self._failure: tuple[float, PgcronError] | None = None
        self._read_at = -inf
        self.last_success: datetime | None = None

    async def snapshot(self, key: Key, read: Read[T], *, life: float = LIFE_SECONDS) -> Snapshot[T]:
        """What `read` gives for `key`, at most `life` seconds old. With a life of 0 it is not
        kept, as it is large: only those who ask while it is read share it.

        `key` names the view and everything that chose its rows; its first item is a word for
        metrics. When the database is away, the last snapshot with the reason, or the reason is
        raised: DatabaseUnavailable, SchemaError, Conflict (a statement took too long). Other
        errors (NotFound, InvalidInput) are always raised.
        """
        entry = self._entries.get(key)
        if entry is not None and monotonic() - entry.read < life and entry.read > self._written:
            return self._shown(key, entry)
        try:
            return self._shown(key, await self._read(key, read, is_kept=life > 0))
        except _AWAY as problem:
            if entry is None:
                raise
            return self._shown(key, entry, problem)

    def expire(self) -> None:
        """This process has written something: later reads must see it."""
        self._written = monotonic()

    async def check(self) -> None:
        """Raises unless the database answers and its schema is as this version needs it: within
        `CHECK_SECONDS`, or at least it did so just now. All callers wait for one answer.
        """
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                found = await self.snapshot(("check",), _nothing, life=CHECK_LIFE_SECONDS)
        except TimeoutError:
            if self._failure is None and monotonic() - self._read_at < CHECK_LIFE_SECONDS:
                return
            raise DatabaseUnavailable(
                "the database does not answer",
                f"It had {CHECK_SECONDS:g} s.",
                "Look at the server, and at the network to it.",
            ) from None
        if found.problem is not None:
            raise found.problem

    @property
    def problem(self) -> PgcronError | None:
        """Why the last read failed; None: it did not, or nothing was read yet."""
        return None if self._failure is None else self._failure[1]

    async def close(self) -> None:
        """End what is being read and close the connections."""
        for flight in self._flights.values():
            flight.cancel()
        await asyncio.gather(*self._flights.values(), return_exceptions=True)
        self._flights.clear()  # a task cancelled before its first step reaches no `finally`
        await self.pool.close()

    def _shown(self, key: Key, entry: _Entry, problem: PgcronError | None = None) -> Snapshot[Any]:
        if key in self._entries:
            self._entries.move_to_end(key)
        now = entry.at + timedelta(seconds=monotonic() - entry.read)
        return Snapshot(entry.value, now, entry.at, problem)

    async def _read(self, key: Key, read: Read[Any], is_kept: bool) -> _Entry:
        if self._failure is not None:
            failed_at, problem = self._failure
            if monotonic() - failed_at < PAUSE_AFTER_FAILURE_SECONDS:
                raise problem
        written = self._written
        while True:
            flight = self._flights.get(key)
            if flight is None:
                flight = asyncio.create_task(self._fly(key, read, is_kept))
                self._flights[key] = flight
                # All that waited may have gone: then nobody else asks for its error.
                flight.add_done_callback(lambda done: done.cancelled() or done.exception())
            # A viewer that goes away must not cancel the read for the others.
            entry = await asyncio.shield(flight)
            if entry.read > written:
                return entry  # else it was under way when something was written

    async def _fly(self, key: Key, read: Read[Any], is_kept: bool) -> _Entry:
        began = monotonic()
        try:
            with self._metrics.queries.labels(key[0]).time():
                async with self.pool.transaction() as connection:
                    at = await database_time(connection, schema=self.schema)
                    entry = _Entry(await read(connection), at.astimezone(UTC), began)
        except PgcronError as error:
            # Its own codes have groups of so many characters: PC00, PC01.
            self._metrics.errors.labels(error.sqlstate[:4]).inc()
            if isinstance(error, Conflict):
                raise naming(error, await self._blocking()) from error
            if isinstance(error, DatabaseUnavailable | SchemaError):
                self._failure = (monotonic(), error)
            raise
        finally:
            # Not in a callback of the task: until that is called, `_read` would take the finished
            # task again and again without yielding.
            self._flights.pop(key, None)  # `close` may have removed it
        self._failure, self.last_success, self._read_at = None, entry.at, began
        if is_kept:
            self._entries[key] = entry
        while len(self._entries) > MOST_SNAPSHOTS:
            self._entries.popitem(last=False)
        return entry

    async def _blocking(self) -> list[dict[str, Any]]:
        """Sessions that may have kept a read waiting; none when they can't be read."""
        try:
            async with self.pool.transaction() as connection:
                return await blocking_sessions(connection, schema=self.schema)
        except PgcronError:
            return []


async def _nothing(connection: Connection) -> None:
    """The check is the connection and its schema; it reads nothing more."""
