"""Checks the token of a callback before anything else of the request is read.

Waiting tokens are checked together, by one statement at a time: a flood of wrong ones costs the
database next to nothing and delays the right ones by no more than a statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from pgcron_ha.db.commands.callbacks import CallbackKey

Ask: TypeAlias = Callable[[Sequence[CallbackKey]], Awaitable[set[int]]]

MOST_AT_ONCE: Final = 500
"""Tokens that one statement looks for."""

_SECONDS: Final = 10.0
"""For one statement and its connection."""


class TokenCheck:
    """`ask` gives the positions of the keys that are known. For one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: list[tuple[CallbackKey, asyncio.Future[bool]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def knows(self, key: CallbackKey) -> bool:
        """Whether it is the token of that attempt. Raises what `ask` raises, and TimeoutError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        self._waiting.append((key, answer))
        if self._asking is None:
            self._asking = loop.create_task(self._ask_for_all())
        return await answer

    async def close(self) -> None:
        """Checks no more tokens."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking

    async def _ask_for_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = (
                    self._waiting[:MOST_AT_ONCE],
                    self._waiting[MOST_AT_ONCE:],
                )
                await self._ask_for(batch)
        finally:
            self._asking = None

    async def _ask_for(self, batch: list[tuple[CallbackKey, asyncio.Future[bool]]]) -> None:
        known: set[int] = set()
        problem: Exception | None = None
        try:
            async with asyncio.timeout(_SECONDS):
                known = await self._ask([key for key, _ in batch])
        except Exception as error:
            problem = error
        for position, (_, answer) in enumerate(batch):
            if answer.done():
                continue  # the caller has gone
            if problem is None:
                answer.set_result(position in known)
            else:
                answer.set_exception(problem)
