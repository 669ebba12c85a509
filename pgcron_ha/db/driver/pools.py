"""The driver's pools, as readers, clients and handlers use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS
from pgcron_ha.db.driver.hosts import open_connection
from pgcron_ha.db.driver.pooling import cache_options, is_pooled

_CONNECT: Final[Any] = open_connection  # asyncpg's protocol for it names what nobody needs


async def keep(connection: Any) -> None:
    """For sessions in which nothing is left behind: a RESET would undo their settings."""


async def make_pool(
    dsn: str,
    most: int,
    *,
    prepare: Callable[[Any], Coroutine[Any, Any, None]],
    seconds: float,
    tidy: Callable[[Any], Coroutine[Any, Any, None]] = keep,
    password: Callable[[], str] | None = None,
    **options: Any,
) -> asyncpg.Pool:
    """A pool of at most `most` connections, each made within `seconds` when it is needed and given
    to `prepare`; `tidy` gets it back after each use. It finds out first whether a pooler stands
    between. Raises what `is_pooled` raises.
    """
    pooled = await is_pooled(dsn, timeout=seconds, password=password)
    return await asyncpg.create_pool(
        dsn,
        connect=_CONNECT,
        password=password,
        min_size=0,
        max_size=most,
        init=prepare,
        reset=tidy,
        timeout=seconds,
        **cache_options(pooled),
        **options,
    )


async def close_pool(pool: asyncpg.Pool, seconds: float) -> None:
    """Ends its connections: within `seconds` those that are free, and then all."""
    try:
        await asyncio.wait_for(pool.close(), seconds)
    except CONNECTION_ERRORS:  # a time-out is one of them
        pool.terminate()
