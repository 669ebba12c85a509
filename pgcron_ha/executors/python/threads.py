"""Threads for plain functions: made on demand, at most a bound, never the engine's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pgcron_ha.executors.contract.context import Context


class HandlerThreads:
    """Calls ``execute(context)`` in a thread; the context it returns is executed next by the same.

    The threads are daemons: one stuck in a user's function must not keep the process alive.
    """

    def __init__(self, execute: Callable[[Context], Context | None], limit: int) -> None:
        self._execute = execute
        self._limit = limit
        self._waiting: deque[Context] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._closed = False
        self._threads: set[threading.Thread] = set()

    def submit(self, context: Context) -> None:
        """Execute it in an idle or a new thread, or when one of the ``limit`` threads is free."""
        with self._changed:
            self._waiting.append(context)
            if self._idle >= len(self._waiting) or len(self._threads) >= self._limit:
                self._changed.notify()
                return
            name = f"pgcron-handler-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.add(thread)
        thread.start()

    def close(self) -> list[threading.Thread]:
        """Let idle threads end; gives all that have not ended yet, to be joined."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return list(self._threads)

    def _work(self) -> None:
        following = self._take()
        while following is not None:
            following = self._execute(following) or self._take()
        with self._changed:
            self._threads.discard(threading.current_thread())

    def _take(self) -> Context | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._waiting.popleft()
