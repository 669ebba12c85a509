"""What a server is asked, as it writes it down itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.place import Place

_STATEMENT: Final = re.compile(r"^pid=(\d+) LOG:  (?:statement|execute [^:]*): (.*)$", re.MULTILINE)
_DURATION: Final = re.compile(
    r"^pid=(\d+) LOG:  duration: ([0-9.]+) ms +[a-z]+(?: [^:]*)?: (.*)$", re.M
)
_ALL: Final = ("log_statement", "all")


@asynccontextmanager
async def logged(place: Place, slower_than: int | None = None) -> AsyncIterator[None]:
    """The server writes down every statement meanwhile, or those that take so many ms."""
    name, value = (
        _ALL if slower_than is None else ("log_min_duration_statement", f"{slower_than}ms")
    )
    before = await place.observer.fetchval(f"SHOW {name}")
    await place.observer.execute("ALTER SYSTEM SET log_line_prefix = 'pid=%p '")
    await place.observer.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await _reload(place, name, value)
    try:
        yield
    finally:
        await place.observer.execute(f"ALTER SYSTEM RESET {name}")
        await place.observer.execute("ALTER SYSTEM RESET log_line_prefix")
        await _reload(place, name, before)


def statements(place: Place) -> list[str]:
    """The beginning of each logged statement, the observer's aside."""
    observer = str(place.observer.get_server_pid())
    return [line[:60] for pid, line in _STATEMENT.findall(server_log(place)) if pid != observer]


def longest(place: Place, since: int) -> tuple[float, str] | None:
    """Milliseconds and beginning of the slowest statement that was written down, the observer's
    aside; `since` is where the log ended before.
    """
    observer = str(place.observer.get_server_pid())
    found = _DURATION.findall(server_log(place)[since:])
    return max(
        ((float(taken), line[:60]) for pid, taken, line in found if pid != observer), default=None
    )


def server_log(place: Place) -> str:
    """All that the server has written so far."""
    assert place.log is not None, "only the log of an own server can be read"
    return place.log.read_text(encoding="utf-8", errors="replace")


async def _reload(place: Place, name: str, expected: str) -> None:
    await place.observer.execute("SELECT pg_reload_conf()")

    async def is_loaded() -> bool:
        return bool(await place.observer.fetchval(f"SHOW {name}") == expected)

    await stage.until("the server has read its settings", is_loaded)
