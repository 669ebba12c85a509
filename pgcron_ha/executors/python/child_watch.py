"""Which sockets and pipes of the children are listened to, and which flood and have to wait."""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from typing import TypeAlias

from pgcron_ha.executors.process.flood_watch import FloodWatch
from pgcron_ha.executors.process.run import OutputPipe
from pgcron_ha.executors.python.child_process import ChildProcess

WatchedOfChild: TypeAlias = OutputPipe | ChildProcess
"""A child stands for its socket."""


def files_of(child: ChildProcess) -> tuple[WatchedOfChild, ...]:
    """All that a child may say something through."""
    return child, *child.pipes


class ChildWatch(FloodWatch[WatchedOfChild]):
    """Listens to children, and tells when there is room for what they are told."""

    def want_to_write(self, child: ChildProcess) -> None:
        """Tell when its socket has room, if messages wait for that."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.is_writing else 0)
        if self._wanted.get(child, wanted) != wanted:
            self._wanted[child] = wanted
            self.selector.modify(child.fileno(), wanted, child)

    def ready(self, seconds: float | None) -> Iterator[tuple[object, int]]:
        """What has something to say, at the latest after these seconds, and others' files."""
        for key, events in self.selector.select(seconds):
            yield key.data, events
