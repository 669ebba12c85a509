"""While a run executes, what it prints and logs becomes lines of its log.

The run is found through a context variable, so concurrent runs of one event loop don't mix, and
code outside a run prints and logs where it did before. Output through ``sys.stdout.buffer`` or
file descriptor 1 passes by.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextvars import ContextVar
from typing import Any, Literal, TextIO

from pgcron_ha.executors.contract.context import Context

current_run: ContextVar[Context | None] = ContextVar("pgcron_ha_current_run", default=None)
"""The run whose code is executing."""


class Capture:
    """Installed by the first executor that needs it, removed by the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._streams: dict[Literal["stdout", "stderr"], _CapturedStream] = {}
        self._handler = _RunLogHandler()
        self._filtered: list[logging.Handler] = []

    def install(self) -> None:
        """Begin to capture; to be paired with one `uninstall`."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            root = logging.getLogger()
            # Console handlers would say once more what the run's log says; others (files, error
            # trackers) go on.
            self._filtered = [each for each in root.handlers if type(each) is logging.StreamHandler]
            for handler in self._filtered:
                handler.addFilter(_is_outside)
            root.addHandler(self._handler)
            for name in ("stdout", "stderr"):
                original = getattr(sys, name)
                if original is not None:  # a process may have none
                    self._streams[name] = _CapturedStream(name, original)
                    setattr(sys, name, self._streams[name])

    def uninstall(self) -> None:
        """Put everything back, if this was the last user."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            for name, stream in self._streams.items():
                if getattr(sys, name) is stream:  # other code may have replaced our stream
                    setattr(sys, name, stream.original)
            self._streams.clear()
            logging.getLogger().removeHandler(self._handler)
            for handler in self._filtered:
                handler.removeFilter(_is_outside)


class _CapturedStream:
    """Replaces sys.stdout or sys.stderr; everything but writing goes to the original."""

    def __init__(self, name: Literal["stdout", "stderr"], original: TextIO) -> None:
        self.name = name
        self.original = original

    def write(self, text: str) -> int:
        context = current_run.get()
        log = None if context is None else context._open_log()
        if log is not None and log.feed(self.name, text):
            return len(text)
        return self.original.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Only what is written is pushed on: all runs and the process itself share the stream."""
        self.original.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class _RunLogHandler(logging.Handler):
    """Writes the records of a run to its log."""

    def emit(self, record: logging.LogRecord) -> None:
        context = current_run.get()
        if context is None:
            # With no handler at all, logging prints warnings; our being there must not end that.
            last = logging.lastResort
            is_only = logging.getLogger().handlers == [self]
            if last is not None and is_only and record.levelno >= last.level:
                last.handle(record)
            return
        try:
            context.log(f"{record.levelname} {record.name}: {self.format(record)}")
        except Exception:
            self.handleError(record)


def _is_outside(record: logging.LogRecord) -> bool:
    return current_run.get() is None


capture = Capture()
"""The process has one ``sys.stdout`` and one root logger, so there is one capture."""
