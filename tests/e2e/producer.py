"""A client that enqueues all the time, whatever becomes of the database."""

from __future__ import annotations

import asyncio

import asyncpg

from tests.e2e.ledger import Connection, enqueue

PAUSE_SECONDS = 0.01


class Producer:
    """Inserts runs and notes which of them the database has acknowledged, in `accepted`."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.accepted: list[int] = []
        self.failures: list[str] = []
        self._task = asyncio.create_task(self._produce())

    def stop(self) -> None:
        self._task.cancel()

    async def _produce(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    if connection is None:
                        connection = await asyncpg.connect(self._dsn, timeout=2)
                    self.accepted += await enqueue(connection, "py:work", 2, args={"seconds": 0.05})
                except Exception as error:  # a driver has many words for a database that is away
                    self.failures.append(repr(error))
                    if connection is not None:
                        connection.terminate()
                    connection = None
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            if connection is not None:
                connection.terminate()
