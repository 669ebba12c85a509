"""Sessions of roles that have parts, and what the database says to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg

from tests.db.control import Connection

Become: TypeAlias = Callable[..., Awaitable[Connection]]


async def verdict(session: Connection, statement: str, *values: Any) -> str:
    """The SQLSTATE; nothing of the statement stays."""
    transaction = session.transaction()
    await transaction.start()
    try:
        await session.fetch(statement, *values)
    except asyncpg.PostgresError as error:
        reported = error.as_dict()
        is_explained = all(
            len(reported.get(field) or "") > 8 for field in ("message", "detail", "hint")
        )
        is_own = str(error.sqlstate).startswith("PC")
        return str(error.sqlstate) if is_explained or not is_own else "not explained"
    finally:
        await transaction.rollback()
    return "00000"


async def verdicts(session: Connection, *asked: str) -> dict[str, str]:
    return {statement: await verdict(session, statement) for statement in asked}
