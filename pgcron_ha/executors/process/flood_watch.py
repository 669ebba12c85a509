"""Which pipes of programs and children are listened to, and which flood and have to wait."""

from __future__ import annotations

import selectors
import time
from typing import Final, Generic, Protocol, TypeVar

FLOOD_BYTES: Final = 2 * 1024 * 1024
"""What one pipe may give in a `FLOOD_SECONDS`; then who writes waits until the next one, so that a
flood takes little of the node's processor."""

FLOOD_SECONDS: Final = 0.1


class Watched(Protocol):
    """What may flood."""

    allowance: int
    """Bytes it may give until it has to wait."""

    def fileno(self) -> int:
        """Its descriptor."""


One = TypeVar("One", bound=Watched)


class FloodWatch(Generic[One]):
    """A selector that gives each of them `FLOOD_BYTES` in a `FLOOD_SECONDS`."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._wanted: dict[One, int] = {}
        self._paused: list[One] = []
        self._resume_at = 0.0

    @property
    def has_paused(self) -> bool:
        """Whether one of them floods."""
        return bool(self._paused)

    def add(self, watched: One) -> None:
        """Listen to it."""
        watched.allowance = FLOOD_BYTES
        self._wanted[watched] = selectors.EVENT_READ
        self.selector.register(watched.fileno(), selectors.EVENT_READ, watched)

    def remove(self, watched: One) -> None:
        """No more; nothing happens if it is not listened to."""
        if self._wanted.pop(watched, None) is not None:
            self.selector.unregister(watched.fileno())
        elif watched in self._paused:
            self._paused.remove(watched)

    def pause_a_flood(self, watched: One) -> None:
        """Let it wait if it has given all it may."""
        if watched.allowance <= 0 and watched in self._wanted:
            self.remove(watched)
            self._paused.append(watched)

    def resume(self) -> None:
        """Listen again to those whose time has come."""
        if self._paused and time.monotonic() >= self._resume_at:
            paused, self._paused = self._paused, []
            for watched in paused:
                self.add(watched)
            self._resume_at = time.monotonic() + FLOOD_SECONDS
