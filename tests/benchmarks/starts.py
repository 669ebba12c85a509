"""Who started what and when: handlers append a few bytes to a file, the benchmark reads it."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VARIABLE: Final = "PGCRON_BENCHMARK_STARTS"
_RECORD: Final = struct.Struct("<qiidd")


@dataclass(frozen=True)
class Start:
    """One handler that began: `asked_at` is when it should have, or was asked for, `at` when it
    did; both are seconds since 1970 of this machine's clock.
    """

    run: int
    attempt: int
    process_id: int
    asked_at: float
    at: float

    @property
    def delay(self) -> float:
        """Seconds from the one to the other."""
        return self.at - self.asked_at


class StartRecorder:
    """The writing end, in a node or a bare loop: the file is that of `VARIABLE`."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def record(self, run: int, attempt: int, asked_at: float) -> None:
        """Now a handler begins. One write of a few bytes, which no other writer can cut."""
        at = time.time()
        if self._descriptor is None:
            self._descriptor = os.open(
                os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
            )
        os.write(self._descriptor, _RECORD.pack(run, attempt, os.getpid(), asked_at, at))


def read_starts(path: Path) -> list[Start]:
    """All starts so far, in the order in which they were written."""
    content = path.read_bytes() if path.exists() else b""
    whole = len(content) - len(content) % _RECORD.size
    return [Start(*fields) for fields in _RECORD.iter_unpack(content[:whole])]


def count_starts(path: Path) -> int:
    """How many there are so far."""
    return path.stat().st_size // _RECORD.size if path.exists() else 0
