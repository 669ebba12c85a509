"""What a server is asked, as it writes it down itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.place import Place

_STATEMENT: Final = re.compile(r"^pid=(\d+) LOG:  (?:statement|execute [^:]*): (.*)$", re.MULTILINE)


@asynccontextmanager
async def logged(place: Place) -> AsyncIterator[None]:
    """The server writes down every statement meanwhile."""
    await place.observer.execute("ALTER SYSTEM SET log_line_prefix = 'pid=%p '")
    await place.observer.execute("ALTER SYSTEM SET log_statement = 'all'")
    await _reload(place, "all")
    try:
        yield
    finally:
        await place.observer.execute("ALTER SYSTEM RESET log_statement")
        await place.observer.execute("ALTER SYSTEM RESET log_line_prefix")
        await _reload(place, "none")


def statements(place: Place) -> list[str]:
    """The beginning of each logged statement, the observer's aside."""
    observer = str(place.observer.get_server_pid())
    return [line[:60] for pid, line in _STATEMENT.findall(server_log(place)) if pid != observer]


def server_log(place: Place) -> str:
    """All that the server has written so far."""
    assert place.log is not None, "only the log of an own server can be read"
    return place.log.read_text(encoding="utf-8", errors="replace")


async def _reload(place: Place, expected: str) -> None:
    await place.observer.execute("SELECT pg_reload_conf()")

    async def is_loaded() -> bool:
        return bool(await place.observer.fetchval("SHOW log_statement") == expected)

    await stage.until("the server has read its settings", is_loaded)
