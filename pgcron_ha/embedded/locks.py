"""File locks that the kernel gives back when their process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from pgcron_ha.embedded.deadline import Deadline


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
