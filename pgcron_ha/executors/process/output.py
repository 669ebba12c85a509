"""What programs and children print: pipes that are read, and how a flood of one is slowed down."""

from __future__ import annotations

import codecs
import os
import selectors
import time
from collections.abc import Iterator
from typing import Final, Literal, Protocol

from pgcron_ha.executors.contract.attempt import Stream
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.masking import MARGIN, mask

READ_BYTES = 65536
"""Of one read; also what a pipe holds by default."""

MAX_TAIL_BYTES = 2048
"""The end of stderr that is kept with the error of a run."""

MAX_LAST_READS = 32
"""What a pipe may hold after its last writer is gone (1 MiB, enlarged), twice."""

FLOOD_BYTES: Final = 2 * 1024 * 1024
"""Limit for one pipe in each `FLOOD_SECONDS`; its writer then waits for the next interval, so that
a flood of output uses little of the node's processor."""

FLOOD_SECONDS: Final = 0.1


class Lines(Protocol):
    """Where output goes: the log of a run."""

    def feed(self, stream: Stream, text: str) -> bool:
        """Take text in which lines end with a newline; False if it does not."""


class OutputPipe:
    """The reading end of stdout or stderr."""

    def __init__(self, descriptor: int, stream: Literal["stdout", "stderr"], log: Lines) -> None:
        self.descriptor = descriptor
        self._tail = b""
        self.allowance = 0
        self._stream: Literal["stdout", "stderr"] = stream
        self._log = log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """Its descriptor, for selectors."""
        return self.descriptor

    def read(self) -> int:
        """Pass on at most `READ_BYTES`; gives their number, 0 at the end, -1 for nothing yet."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:
            data = b""
        self.allowance -= len(data)
        self._log.feed(self._stream, self._decoder.decode(data, final=not data))
        self._tail = (self._tail + data)[-MAX_TAIL_BYTES - MARGIN :]
        return len(data)

    def read_rest(self) -> None:
        """What was written so far is in the pipe."""
        for _ in range(MAX_LAST_READS):
            if self.read() <= 0:
                break

    def tail(self) -> str | None:
        """The last of it, without secrets; None without any."""
        text = mask(self._tail.decode("utf-8", "replace"))
        if len(self._tail) >= MAX_TAIL_BYTES + MARGIN:
            text = text[MARGIN:]  # it may begin with a part of one
        return bounded_text(text[-MAX_TAIL_BYTES:]) or None

    def close(self) -> None:
        """Read what the ended processes left in the pipe, and close it."""
        self.read_rest()
        os.close(self.descriptor)


class Watched(Protocol):
    """What may flood: a pipe, or a child for its socket."""

    allowance: int
    """Bytes it may give until it has to wait."""

    def fileno(self) -> int:
        """Its descriptor."""


class FloodWatch:
    """A selector that gives each of them `FLOOD_BYTES` in a `FLOOD_SECONDS`."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._wanted: dict[Watched, int] = {}
        self._paused: list[Watched] = []
        self._resume_at = 0.0

    @property
    def has_paused(self) -> bool:
        """Whether one of them floods."""
        return bool(self._paused)

    def ready(self, seconds: float | None) -> Iterator[tuple[Watched, int]]:
        """Those that have something to say, at the latest after these seconds."""
        for key, events in self.selector.select(seconds):
            if key.data is not None:
                yield key.data, events

    def add(self, watched: Watched) -> None:
        """Listen to it."""
        watched.allowance = FLOOD_BYTES
        self._wanted[watched] = selectors.EVENT_READ
        self.selector.register(watched.fileno(), selectors.EVENT_READ, watched)

    def want_to_write(self, watched: Watched, is_writing: bool) -> None:
        """Watch for room to write, too, if messages wait for it."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_writing else 0)
        if self._wanted.get(watched, wanted) != wanted:
            self._wanted[watched] = wanted
            self.selector.modify(watched.fileno(), wanted, watched)

    def remove(self, watched: Watched) -> None:
        """No more; nothing happens if it is not listened to."""
        if self._wanted.pop(watched, None) is not None:
            self.selector.unregister(watched.fileno())
        elif watched in self._paused:
            self._paused.remove(watched)

    def pause_a_flood(self, watched: Watched) -> None:
        """Let it wait if it has given all it may."""
        if watched.allowance <= 0 and watched in self._wanted:
            self.remove(watched)
            self._paused.append(watched)

    def resume(self) -> None:
        """Read again from pipes whose pause is over."""
        if self._paused and time.monotonic() >= self._resume_at:
            paused, self._paused = self._paused, []
            for watched in paused:
                self.add(watched)
            self._resume_at = time.monotonic() + FLOOD_SECONDS
