"""Within which scopes a person works: what statements and functions see as `pgcron.scopes`.

A context variable, since it concerns each statement of a request, whichever function sends it. What
forgets it is one person's for all, so it is set where a request begins, and nowhere else is a
transaction of a page begun without `enter`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pgcron_ha.db.driver.statements import load
from pgcron_ha.model.permissions import Scopes

SCOPES: Final[ContextVar[Scopes]] = ContextVar("scopes", default=None)


async def enter(connection: Any) -> None:
    """At the beginning of a transaction of asyncpg: all of it is within the scopes."""
    scopes = SCOPES.get()
    if scopes is not None:
        await connection.fetchval(load()["enter_scopes"].sql, list(scopes))


@contextmanager
def within(scopes: Scopes) -> Iterator[None]:
    """Everything in this block is within these scopes."""
    token = SCOPES.set(scopes)
    try:
        yield
    finally:
        SCOPES.reset(token)
