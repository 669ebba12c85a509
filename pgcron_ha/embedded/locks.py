"""File locks that the kernel gives back when their process dies, however it dies; and the one limit
for an operation of many steps, each of which may wait for one.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Self

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


class FileLock:
    """An `flock` on one file, held from `acquire` until `release` or the death of the process.

    Programs started meanwhile do not inherit it, nor do forked children, unless its `descriptor` is
    passed on: then it is held until the last holder of that descriptor is gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """The descriptor that carries the lock; the lock must be held."""
        if self._descriptor is None:
            raise RuntimeError(f"{self.path} is not locked")
        return self._descriptor

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; True if it is held now."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)
        return True

    def acquire(self, deadline: Deadline, waiting_for: str, *, shared: bool = False) -> Self:
        """Take the lock; raises DatabaseUnavailable if it is not free before the deadline."""
        while not self.try_acquire(shared=shared):
            deadline.pause(waiting_for)
        return self

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held.

        Closed, never unlocked: a process that inherited the descriptor keeps the lock.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


# A forked child has its own copy of every descriptor: kept open, it would hold the parent's locks.
# Strong references: a handle nobody remembers keeps its lock until the end of the process, too.
_held: set[FileLock] = set()


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
