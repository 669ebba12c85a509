"""Checks the token of a callback before anything else of the request is read.

Waiting tokens are checked together, by one statement at a time: a flood of wrong ones costs the
database next to nothing and delays the right ones by no more than a statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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
        self._waiting: list[tuple[CallbackKey, asyncio.Future[bool | Exception]]] = []
        self._asking = asyncio.Lock()

    async def knows(self, key: CallbackKey) -> bool:
        """Whether it is the token of that attempt. Raises what `ask` raises, and TimeoutError."""
        answer: asyncio.Future[bool | Exception] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, answer))
        async with self._asking:
            while not answer.done():  # unless a caller before it has asked for both
                await self._ask_for_some()
        found = answer.result()
        if isinstance(found, Exception):
            raise found
        return found

    async def _ask_for_some(self) -> None:
        batch = self._waiting[:MOST_AT_ONCE]
        found: Sequence[bool | Exception]
        try:
            async with asyncio.timeout(_SECONDS):
                known = await self._ask([key for key, _ in batch])
            found = [position in known for position in range(len(batch))]
        except Exception as error:
            found = [error] * len(batch)
        del self._waiting[: len(batch)]  # when it is cancelled, the next caller asks for them
        for (_, answer), one in zip(batch, found, strict=True):
            answer.set_result(one)
