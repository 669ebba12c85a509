"""Wakes a thread that waits in a selector."""

from __future__ import annotations

import contextlib
import selectors
import socket
from typing import Final

_MOST_BYTES: Final = 4096


class Waker:
    """Registered with the selector without data; `wake` may be called from any thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._heard, self._said = socket.socketpair()
        self._heard.setblocking(False)
        self._said.setblocking(False)
        selector.register(self._heard, selectors.EVENT_READ)

    def wake(self) -> None:
        """The thread's next wait, or the one under way, ends at once. Never waits."""
        with contextlib.suppress(OSError):  # full: it is awake already; closed: nothing to do
            self._said.send(b"\0")

    def drain(self) -> None:
        """Awake: forget how often that was said."""
        with contextlib.suppress(BlockingIOError):
            self._heard.recv(_MOST_BYTES)

    def close(self) -> None:
        """After the selector."""
        self._heard.close()
        self._said.close()
