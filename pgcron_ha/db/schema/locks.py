"""What migrations and removals of a schema wait for: one another, and locks of those who use it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pgcron_ha.errors import SchemaError

MIGRATION_KEY: Final = 0x706763726F6E
"""Migrations of one database wait for each other on this key, whatever the schema is called."""

LOCK_SECONDS: Final = 2
"""Statements queued behind a waiting migration wait as long as it does: less than a lease."""

LOCK_TRIES: Final = 15

_Done = TypeVar("_Done")


class Locked(SchemaError):
    """Nothing happened: others hold locks on what is to be changed."""


def no_lock(who: str, answer: Exception) -> Locked:
    """The error for what the server answered after LOCK_SECONDS."""
    return Locked(
        f"{who} got no lock: {answer}",
        "A long transaction or backup holds what it is to change; nothing was changed.",
        "Try again when it has ended; pg_blocking_pids(pid) names who it is.",
    )


async def in_tries(attempt: Callable[[], Awaitable[_Done]]) -> _Done:
    """What `attempt` returns, which is begun again when it was Locked, up to LOCK_TRIES times."""
    for _ in range(LOCK_TRIES - 1):
        try:
            return await attempt()
        except Locked:
            await asyncio.sleep(random.uniform(0, LOCK_SECONDS))
    return await attempt()
