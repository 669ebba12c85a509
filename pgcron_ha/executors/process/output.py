"""What programs and children print: pipes that are read, and how a flood of one is slowed down."""

from __future__ import annotations

import asyncio
import codecs
import os
from typing import Final, Literal, Protocol

from pgcron_ha.executors.contract.attempt import Stream
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.masking import MARGIN, mask

READ_BYTES: Final = 65536
"""Of one read; also what a pipe holds by default."""

MAX_TAIL_BYTES: Final = 2048
"""The end of stderr that is kept with the error of a run."""

MAX_LAST_READS: Final = 32
"""What a pipe may hold after its last writer is gone (1 MiB, enlarged), twice."""

FLOOD_BYTES: Final = 2 * 1024 * 1024
"""After these a pipe is not read for `FLOOD_SECONDS`, and its writer waits, so that a flood of
output uses little of the node's processor."""

FLOOD_SECONDS: Final = 0.1


class Lines(Protocol):
    """Where output goes: the log of a run."""

    def feed(self, stream: Stream, text: str) -> bool:
        """Take text in which lines end with a newline; False if it does not."""


class OutputPipe:
    """The reading end of stdout or stderr, read by the running event loop until `close`."""

    def __init__(self, descriptor: int, stream: Literal["stdout", "stderr"], log: Lines) -> None:
        self._descriptor = descriptor
        self._stream: Literal["stdout", "stderr"] = stream
        self._log = log
        self._tail = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pause: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._resume()

    def read_rest(self) -> None:
        """What was written so far is in the pipe."""
        for _ in range(MAX_LAST_READS):
            if self._read() <= 0:
                break

    def tail(self) -> str | None:
        """The last of it, without secrets; None without any."""
        text = mask(self._tail.decode("utf-8", "replace"))
        if len(self._tail) >= MAX_TAIL_BYTES + MARGIN:
            text = text[MARGIN:]  # it may begin with a part of one
        return bounded_text(text[-MAX_TAIL_BYTES:]) or None

    def close(self) -> None:
        """Read what the ended processes left in the pipe, and close it."""
        self._loop.remove_reader(self._descriptor)
        if self._pause is not None:
            self._pause.cancel()
        self.read_rest()
        os.close(self._descriptor)

    def _resume(self) -> None:
        self._allowance = FLOOD_BYTES
        self._loop.add_reader(self._descriptor, self._read_some)

    def _read_some(self) -> None:
        size = self._read()
        self._allowance -= size
        if size == 0 or self._allowance <= 0:
            self._loop.remove_reader(self._descriptor)
        if size > 0 and self._allowance <= 0:
            self._pause = self._loop.call_later(FLOOD_SECONDS, self._resume)

    def _read(self) -> int:
        """Pass on at most `READ_BYTES`; gives their number, 0 at the end, -1 for nothing yet."""
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:
            data = b""
        self._log.feed(self._stream, self._decoder.decode(data, final=not data))
        self._tail = (self._tail + data)[-MAX_TAIL_BYTES - MARGIN :]
        return len(data)
