"""What each process that stays has in common: its event loop, and how many files it may open."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

_DESCRIPTORS: Final = 65_536
"""No process of pgcron_ha needs more open files; programs that it starts inherit the number, and
some of them close so many at their start.
"""


def allow_descriptors() -> None:
    """Raises the limit of open files as far as the system lets it: the usual 1,024 are little for
    sessions, programs and their output, and connections of others.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` on the fastest event loop there is."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
