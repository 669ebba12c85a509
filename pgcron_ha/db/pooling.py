"""Poolers that hand the server's sessions around from one transaction to the next, as pgbouncer's
transaction mode does: found out, and what is done otherwise then.

Nothing that lasts longer than a transaction may be left in a session that others get next, and
nothing of ours is there when we come again: no prepared statement, no setting, no LISTEN.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from pgcron_ha.db.hosts import hosts_of, open_connection
from pgcron_ha.db.statements import load

_ASKED: Final = 100
"""Statements that the driver keeps prepared on a connection to the server itself; its default."""

# What the first answer of this process was, by DSN.
_known: dict[str, bool] = {}


async def connect_plainly(
    dsn: str, *, timeout: float, password: str | None = None
) -> tuple[asyncpg.Connection, bool]:
    """A connection without any setting, and whether a pooler stands between. Raises what asyncpg
    raises.

    Through a pooler it keeps no statement prepared.
    """
    pooled = _known.get(dsn)
    # Hosts are asked which of them is the newest, before anything is known.
    is_careful = pooled or (pooled is None and len(hosts_of(dsn)) > 1)
    options = cache_options(is_careful)
    if password is not None:
        options["password"] = password
    connection = await open_connection(dsn, timeout=timeout, **options)
    if pooled is not None:
        return connection, pooled
    try:
        _known[dsn] = pooled = await _stands_between(connection)
    except BaseException:
        connection.terminate()
        raise
    if pooled == is_careful:
        return connection, pooled
    connection.terminate()
    return await connect_plainly(dsn, timeout=timeout, password=password)


async def is_pooled(dsn: str, *, timeout: float, password: str | None = None) -> bool:
    """The same, for those who let the driver make their connections."""
    if dsn not in _known:
        connection, _ = await connect_plainly(dsn, timeout=timeout, password=password)
        await connection.close(timeout=timeout)
    return _known[dsn]


def was_pooled(dsn: str) -> bool:
    """What was found out before; False when nobody has connected yet."""
    return _known.get(dsn, False)


def cache_options(pooled: bool) -> dict[str, Any]:
    """The driver's options for a connection."""
    return {"statement_cache_size": 0 if pooled else _ASKED}


async def _stands_between(connection: asyncpg.Connection) -> bool:
    """Whether the session that answers is another than the one that was greeted.

    In a transaction, during which the session stays the same, by a statement without a name.
    """
    await connection.execute("BEGIN READ ONLY")
    prepared = await connection.prepare(load()["read_backend"].sql, name="")
    greeted, answering = connection.get_server_pid(), await prepared.fetchval()
    await connection.execute("ROLLBACK")
    return bool(greeted != answering)
