"""Which sockets and pipes of the children are listened to, and which flood and have to wait."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from typing import TypeAlias

from pgcron_ha.executors.child_process import ChildProcess
from pgcron_ha.executors.shell_loop import FLOOD_BYTES, FLOOD_SECONDS
from pgcron_ha.executors.shell_run import OutputPipe

Watched: TypeAlias = "OutputPipe | ChildProcess"
"""A child stands for its socket."""


def files_of(child: ChildProcess) -> tuple[Watched, ...]:
    """All that a child may say something through."""
    return child, *child.pipes


class ChildWatch:
    """A selector that gives each of them `FLOOD_BYTES` in a `FLOOD_SECONDS`; then the child waits,
    so that its flood takes little of the node's processor.
    """

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._wanted: dict[Watched, int] = {}
        self._paused: list[Watched] = []
        self._resume_at = 0.0

    @property
    def has_paused(self) -> bool:
        """Whether one of them floods."""
        return bool(self._paused)

    def add(self, watched: Watched) -> None:
        """Listen to it."""
        watched.allowance = FLOOD_BYTES
        self._wanted[watched] = selectors.EVENT_READ
        self.selector.register(_file_of(watched), selectors.EVENT_READ, watched)

    def remove(self, watched: Watched) -> None:
        """No more; nothing happens if it is not listened to."""
        if self._wanted.pop(watched, None) is not None:
            self.selector.unregister(_file_of(watched))
        elif watched in self._paused:
            self._paused.remove(watched)

    def want_to_write(self, child: ChildProcess) -> None:
        """Tell when its socket has room, if messages wait for that."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.is_writing else 0)
        if self._wanted.get(child, wanted) != wanted:
            self._wanted[child] = wanted
            self.selector.modify(child.control, wanted, child)

    def pause_a_flood(self, watched: Watched) -> None:
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

    def ready(self, seconds: float | None) -> Iterator[tuple[object, int]]:
        """What has something to say, at the latest after these seconds, and others' files."""
        for key, events in self.selector.select(seconds):
            yield key.data, events


def _file_of(watched: Watched) -> int | socket.socket:
    return watched.descriptor if isinstance(watched, OutputPipe) else watched.control
