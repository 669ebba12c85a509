"""What the engine computes of specs, which people write, off its event loop when it takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pgcron_ha.spec.budget import TakesLong, quickly

_Answer = TypeVar("_Answer")


async def compute(function: Callable[[], _Answer]) -> _Answer:
    """The answer of a pure function. Most are found at once; what takes longer begins anew in a
    thread, so that the lease, and all else on the loop, goes on meanwhile.
    """
    try:
        with quickly():
            return function()
    except TakesLong:
        return await asyncio.to_thread(function)
