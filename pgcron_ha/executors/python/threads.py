"""Threads for plain functions: made on demand, at most a bound, never the engine's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from pgcron_ha.executors.contract.context import Context


class HandlerThreads:
    """Calls ``execute(context)`` in a thread; the context it returns is executed next by the same.

    The threads are daemons: one stuck in a user's function must not keep the process alive.
    """

    def __init__(self, execute: Callable[[Context], Context | None], limit: int) -> None:
        self._execute = execute
        self._limit = limit
        self._waiting: SimpleQueue[Context | None] = SimpleQueue()
        self._making = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, context: Context) -> None:
        """Execute it in an idle or a new thread, or when one of the ``limit`` threads is free."""
        self._waiting.put(context)
        with self._making:
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
                name = f"pgcron-handler-{len(self._threads) + 1}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()

    def close(self) -> list[threading.Thread]:
        """Let idle threads end; gives all, to be joined."""
        for _ in self._threads:
            self._waiting.put(None)
        return self._threads

    def _work(self) -> None:
        while (following := self._waiting.get()) is not None:
            while following is not None:
                following = self._execute(following)
            self._idle.release()
