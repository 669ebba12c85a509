"""Poolers that hand the server's sessions around from one transaction to the next, as pgbouncer's
transaction mode does: found out, and what is done otherwise then.

Nothing that lasts longer than a transaction may be left in a session that others get next, and
nothing of ours is there when we come again: no setting, no LISTEN, and no prepared statement,
unless the pooler keeps track of them (pgbouncer from 1.21 on with max_prepared_statements, PgCat):
it gives each a name of its own, and prepares it wherever it is missing.

What the pooler is set to does not matter much: startup parameters that it refuses are not sent, and
a reset between transactions (``DISCARD ALL`` with server_reset_query_always) costs its time and the
plans alone; sessions that come and go (server_lifetime) are not noticed. When all are taken for
longer than query_wait_timeout the pooler hangs up, and the link connects anew; nothing happened.
What other poolers say of themselves fits (PgCat, Odyssey and RDS Proxy also greet with an id of
their own; the first two rename prepared statements); the tests have pgbouncer 1.18 and 1.24 only.

A pooler greets its clients with a process id that is none of the server's, whatever its mode; one
that gives each client a session of its own is known by the setting `pooler` alone. One that is not
found out is, when a prepared statement is gone: see `distrust_statements`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
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
    """What stands between; the values are those of the setting `pooler`, beside ``auto``."""

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


# What was told, or the first answer of this process, by DSN.
_known: dict[str, Pooling] = {}


async def connect_plainly(
    dsn: str,
    *,
    timeout: float,
    password: Callable[[], str] | None = None,
    keeps_statements: bool = False,
) -> tuple[asyncpg.Connection, bool]:
    """A connection without any setting, and whether sessions are handed around. Raises what asyncpg
    raises.

    Through such a pooler it keeps no statement prepared, but with `keeps_statements` where the
    pooler keeps track of them: for statements of ours that are sent again and again, and whose
    sender can do without (`distrust_statements`).
    """
    known = _known.get(dsn)
    is_careful = known is not None and _is_careful(known, keeps_statements)
    options = cache_options(is_careful)
    if not keeps_statements:  # who does begins its transactions with settings of its own
        options["connection_class"] = ClientConnection
    if password is not None:
        options["password"] = password
    connection = await open_connection(dsn, timeout=timeout, **options)
    if known is None:
        try:
            known = _known.setdefault(dsn, await _find_out(connection))
        except BaseException:
            connection.terminate()
            raise
    if _is_careful(known, keeps_statements) == is_careful:
        return connection, known is not Pooling.SESSION
    connection.terminate()
    return await connect_plainly(
        dsn, timeout=timeout, password=password, keeps_statements=keeps_statements
    )


async def is_pooled(dsn: str, *, timeout: float, password: Callable[[], str] | None = None) -> bool:
    """Whether sessions are handed around, for those who let the driver make their connections."""
    if dsn not in _known:
        connection, _ = await connect_plainly(dsn, timeout=timeout, password=password)
        await connection.close(timeout=timeout)
    return was_pooled(dsn)


def was_pooled(dsn: str) -> bool:
    """What was found out before; False when nobody has connected yet."""
    return _known.get(dsn, Pooling.SESSION) is not Pooling.SESSION


def pooling_of(dsn: str) -> Pooling | None:
    """The same with what the pooler keeps; None when nobody has connected yet."""
    return _known.get(dsn)


def assume(dsn: str, pooler: str) -> None:
    """From now on this process takes somebody's word for it (the setting `pooler`) and does not
    look; ``auto`` is no word.
    """
    if pooler != "auto":
        _known[dsn] = Pooling(pooler)


def distrust_statements(dsn: str) -> None:
    """A statement that was prepared is gone, or another stands in its place: so sessions are handed
    around, and nobody keeps track. Connections made from now on keep none.
    """
    _known[dsn] = Pooling.TRANSACTION


def cache_options(is_careful: bool) -> dict[str, Any]:
    """The driver's options for a connection: without prepared statements, to be careful."""
    return {"statement_cache_size": 0 if is_careful else _ASKED}


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
