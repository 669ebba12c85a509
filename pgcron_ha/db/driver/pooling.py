"""Poolers that assign server sessions to clients for one transaction at a time, as pgbouncer's
transaction mode does: how they are detected and handled.

No state that outlives a transaction may be left in a session, since another client gets it next.
Nor can we expect our own state there again: no setting, no LISTEN, and no prepared statement,
unless the pooler tracks prepared statements (pgbouncer from 1.21 on with max_prepared_statements,
PgCat): it gives each its own name, and prepares it wherever it is missing.

The pooler's configuration hardly matters. Startup parameters that it refuses are not sent. A reset
between transactions (``DISCARD ALL`` with server_reset_query_always) costs only its time and the
plans. Sessions that come and go (server_lifetime) have no effect. If no session is free for longer
than query_wait_timeout, the pooler closes the connection and the link reconnects; no statement was
executed. The documentation of other poolers agrees (PgCat, Odyssey and RDS Proxy also send their
own process id; the first two rename prepared statements); only pgbouncer 1.18 and 1.24 are tested.

In any mode a pooler sends its clients a process id that is not the server's. Only the setting
`pooler` says that a pooler gives each client its own session. A pooler that was not detected is
noticed when a prepared statement is gone: see `distrust_statements`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final
from uuid import uuid4

import asyncpg

from pgcron_ha.db.driver.hosts import ASKING, open_connection
from pgcron_ha.db.driver.statements import load

_ASKED: Final = 100
"""Statements that the driver keeps prepared on a connection to the server itself; its default."""


class Pooling(Enum):
    """The kind of pooler; the values are those of the setting `pooler`, beside ``auto``."""

    SESSION = "session"
    """Nothing, or what gives each client a session of its own."""

    TRANSACTION = "transaction"
    """Sessions are handed around, and nothing in them stays."""

    PREPARED = "prepared"
    """Sessions are handed around, but each client finds what it has prepared."""


class ClientConnection(asyncpg.Connection):
    """Every statement is sent in a transaction that begins with the settings, once it has some.

    A session of a transaction pooler has the settings of its role and database, among them a
    search_path on which others may have put functions and operators of their own.
    """

    __slots__ = ("_settings",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._settings = ""

    @property
    def is_pooled(self) -> bool:
        """Whether it leads through a pooler, so that its session is another client's next."""
        return bool(self._settings)

    def begin_with(self, settings: str) -> None:
        """From now on each transaction begins with these commands, ``SET LOCAL …; …``."""
        self._settings = f"; {settings}"

    @asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        """The transaction that is under way, or one for what is sent inside."""
        if not self._settings or self.is_in_transaction():
            yield
            return
        async with self.transaction(isolation="read_committed"):
            yield

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:
        """As asyncpg's; the driver begins its transactions here."""
        if self._settings and query.startswith("BEGIN"):
            return await super().execute(query.rstrip(";") + self._settings, timeout=timeout)
        async with self.settled():
            return await super().execute(query, *arguments, timeout=timeout)

    async def fetch(self, query: str, *arguments: Any, **options: Any) -> list[Any]:
        """As asyncpg's."""
        async with self.settled():
            found: list[Any] = await super().fetch(query, *arguments, **options)
            return found

    async def fetchrow(self, query: str, *arguments: Any, **options: Any) -> Any:
        """As asyncpg's."""
        async with self.settled():
            return await super().fetchrow(query, *arguments, **options)

    async def fetchval(self, query: str, *arguments: Any, **options: Any) -> Any:
        """As asyncpg's."""
        async with self.settled():
            return await super().fetchval(query, *arguments, **options)


# The configured kind, or the first one that this process detected, by DSN.
_known: dict[str, Pooling] = {}


async def connect_plainly(
    dsn: str, *, keeps_statements: bool = False, **options: Any
) -> tuple[ClientConnection, bool]:
    """A connection without any setting, and whether a pooler shares its sessions. `options` are
    those of `open_connection`, and it raises what that raises.

    Through such a pooler it keeps no prepared statements, unless the pooler tracks them and
    `keeps_statements` is set. That is for our own statements, which are sent often and whose sender
    can do without (`distrust_statements`).
    """
    known = _known.get(dsn)
    is_careful = known is not None and _is_careful(known, keeps_statements)
    connection = await open_connection(
        dsn,
        statement_cache_size=0 if is_careful else _ASKED,
        connection_class=ClientConnection,
        **options,
    )
    if known is None:
        try:
            known = _known.setdefault(dsn, await _find_out(connection))
        except BaseException:
            connection.terminate()
            raise
    if _is_careful(known, keeps_statements) == is_careful:
        return connection, known is not Pooling.SESSION
    connection.terminate()
    return await connect_plainly(dsn, keeps_statements=keeps_statements, **options)


def was_pooled(dsn: str) -> bool:
    """Whether sharing was detected; False when nobody has connected yet."""
    return pooling_of(dsn) is not Pooling.SESSION


def pooling_of(dsn: str) -> Pooling:
    """What was detected; `SESSION` when nobody has connected yet."""
    return _known.get(dsn, Pooling.SESSION)


def assume(dsn: str, pooler: str) -> None:
    """Sets the kind of pooler for this process, as the setting `pooler` says; with ``auto`` it is
    detected.
    """
    if pooler != "auto":
        _known[dsn] = Pooling(pooler)


def distrust_statements(dsn: str) -> None:
    """A prepared statement is gone or was replaced: so a pooler shares sessions and does not track
    statements. Connections made from now on keep no prepared statements.
    """
    _known[dsn] = Pooling.TRANSACTION


def _is_careful(known: Pooling, keeps_statements: bool) -> bool:
    if known is Pooling.PREPARED:
        return not keeps_statements
    return known is Pooling.TRANSACTION


async def _find_out(connection: asyncpg.Connection) -> Pooling:
    """Whether the session that answers is another than the one that was greeted.

    In a transaction, during which the session stays the same, by a statement without a name.
    """
    await connection.execute(ASKING)
    prepared = await connection.prepare(load()["read_backend"].sql, name="")
    greeted, answering = connection.get_server_pid(), await prepared.fetchval()
    found = Pooling.SESSION if greeted == answering else await _find_out_statements(connection)
    await connection.execute("ROLLBACK")
    return found


async def _find_out_statements(connection: asyncpg.Connection) -> Pooling:
    """Whether the pooler knows which statements a client has prepared: then the server has this
    one, but under another name.
    """
    name = f"pgcron_{uuid4().hex}"
    try:
        prepared = await connection.prepare(load()["read_prepared"].sql, name=name)
        if not await prepared.fetchval(name):
            return Pooling.PREPARED
        await connection.execute(f'DEALLOCATE "{name}"')
    except asyncpg.PostgresError:
        pass  # the pooler refuses names, or has lost this one at once
    return Pooling.TRANSACTION
