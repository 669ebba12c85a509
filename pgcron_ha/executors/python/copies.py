"""Processes that a handler forked and that return from it, or wait, as if they were the node.

Such a process is a copy with one thread. It would report the end of the run again, take the next
run from its copy of the queue, and use the node's connections.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final, NoReturn, Protocol
from weakref import WeakSet

EXIT_STATUS: Final = 70

_MESSAGE: Final = b"a process that a handler forked came back from it instead of ending; it ends\n"


class Copied(Protocol):
    """What executes handlers in the process that they may fork."""

    def become_a_copy(self) -> None:
        """Called in a forked copy: from now on it reports nothing and starts nothing."""


_watched: WeakSet[Copied] = WeakSet()


def watch_for_copies(executor: Copied) -> None:
    """In each process that stems from this one by fork it becomes a copy. Costs a run nothing."""
    _watched.add(executor)


def end_copy(*_: object) -> NoReturn:
    """Ends a copy; nothing that was registered for the end of the node is called."""
    with contextlib.suppress(OSError):
        os.write(2, _MESSAGE)
    os._exit(EXIT_STATUS)


def _become_copies() -> None:
    for executor in list(_watched):
        executor.become_a_copy()


os.register_at_fork(after_in_child=_become_copies)
