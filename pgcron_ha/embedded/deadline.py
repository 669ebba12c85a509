"""One limit for an operation of many steps, each of which may wait."""

from __future__ import annotations

import time

from pgcron_ha.errors import DatabaseUnavailable

# Short beside the 0.1 s a warm start takes, long enough to cost nothing.
PAUSE_SECONDS = 0.02


class Deadline:
    """The end of an operation, counted from its construction, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    def pause(self, waiting_for: str, seconds: float = PAUSE_SECONDS) -> None:
        """Wait a moment before looking again; raises DatabaseUnavailable when the time is over."""
        if self.remaining() == 0.0:
            raise expired(waiting_for, self.seconds)
        time.sleep(min(seconds, self.remaining()))


def expired(waiting_for: str, seconds: float) -> DatabaseUnavailable:
    """The error for a wait that took too long."""
    return DatabaseUnavailable(
        f"The embedded PostgreSQL was not up within {seconds:g} s",
        f"The time ended while waiting for {waiting_for}.",
        "Look into postgres.log in its folder; on a slow machine, try again: recovery goes on.",
    )
