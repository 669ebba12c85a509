"""Writes the events of this process to stderr: one line for each event, as text or JSON."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sys
from textwrap import indent
from typing import Any, TextIO

from pgcron_ha.harmless import harmless, harmless_json, one_line
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import Event

LOGGER = "pgcron_ha"

_ABOVE_USUAL = 100  # above the descriptors that a handler closes with "all pipes"


def emit(event: Event) -> None:
    """Counts an event, and writes it with its level, its sentence and its facts.

    The text of a handler may contain half of a surrogate pair, which can't be encoded: it is
    escaped.
    """
    COUNTERS.saw(event)
    sentence = event.sentence().encode("utf-8", "backslashreplace").decode("utf-8")
    logging.getLogger(LOGGER).log(event.level, "%s", sentence, extra={"event": event})


def lasting_stderr() -> TextIO:
    """This process's stderr under a descriptor of its own. A handler that closes 1 and 2 does not
    end the log, and the log does not write into a file that gets one of these numbers next.
    """
    try:
        number = fcntl.fcntl(sys.stderr.fileno(), fcntl.F_DUPFD_CLOEXEC, _ABOVE_USUAL)
    except (AttributeError, OSError, ValueError):  # no stderr, or one without a descriptor
        return sys.stderr
    return os.fdopen(number, "w", encoding=sys.stderr.encoding, errors="backslashreplace",
                     buffering=1)  # fmt: skip


def set_up(style: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Sends this process's events to `stream` (stderr); `style` is text or json."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _Lines())
    logger = logging.getLogger(LOGGER)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


class _Lines(logging.Formatter):
    """Each line begins with its time; a line break in an error or a name begins no new line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return indent(harmless(super().formatException(ei)), "    ", lambda _: True)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", None)
        facts: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if isinstance(event, Event):
            facts |= {"event": type(event).__name__, **event.fields()}
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return harmless_json(json.dumps(facts, ensure_ascii=False, default=str))
