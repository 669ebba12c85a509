"""Where benchmarks run: a durable server of their own, and a fresh database for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from tests.benchmarks import machine
from tests.product.db import migrate
from tests.servers import ThrowAwayServer, remove_leftovers
from tests.sessions import own_session

# Of the handlers' own transactions, too: a stricter one would repeat some of them by chance.
SERVER_SETTINGS: Final = {
    "shared_buffers": "1GB",
    "track_commit_timestamp": "on",
    "default_transaction_isolation": "read committed",
}
_TEMPLATE: Final = "migrated"


@dataclass(frozen=True)
class Place:
    """One migrated database; postmaster and log are None for a server that is not ours."""

    dsn: str
    observer: asyncpg.Connection
    postmaster: int | None
    log: Path | None = None

    def server_cpu(self) -> float | None:
        """Seconds the server has used so far, the observer's aside."""
        if self.postmaster is None:
            return None
        return machine.server_cpu_seconds(self.postmaster, self.observer.get_server_pid())


class Ground:
    """The server; `place` makes a database that is gone with the block."""

    def __init__(self, server: ThrowAwayServer) -> None:
        self._server = server
        self._count = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A new database with the current schema, reached over TCP."""
        self._count += 1
        name = f"benchmark_{self._count}"
        self._server.create_database(name, _TEMPLATE)
        dsn = self._server.tcp_dsn(name)
        observer = await own_session(dsn)
        try:
            yield Place(dsn, observer, self._server.pid, self._server.log)
        finally:
            await observer.close()
            self._server.drop_database(name)


@asynccontextmanager
async def own_ground() -> AsyncIterator[Ground]:
    """A server on a real disk with fsync and synchronous_commit on."""
    remove_leftovers()
    with ThrowAwayServer(durable=True, tcp=True, settings=SERVER_SETTINGS) as server:
        server.create_database(_TEMPLATE)
        await migrate(server.tcp_dsn(_TEMPLATE))
        server.seal_template(_TEMPLATE)
        yield Ground(server)


@asynccontextmanager
async def given_place(dsn: str) -> AsyncIterator[Place]:
    """A database of somebody else's server; it is migrated."""
    await migrate(dsn)
    observer = await own_session(dsn)
    try:
        yield Place(dsn, observer, None)
    finally:
        await observer.close()


def difference(before: float | None, after: float | None) -> float | None:
    """What was used in between, where it can be seen."""
    return None if before is None or after is None else after - before
