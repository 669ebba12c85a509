"""The log lines of one run: without secrets, cut, cleaned, counted, never more than a bound."""

from __future__ import annotations

import threading

from pgcron_ha.executors.contract.attempt import Attempt, LogSink, Stream
from pgcron_ha.executors.contract.masking import MARGIN, Masker, masked_beginning, room
from pgcron_ha.executors.contract.progress import MARK, read_line

MAX_LINE_BYTES = 8 * 1024
"""A longer line is cut: a log is read by people, and a row of the log table stays small."""

MAX_LINES = 10_000
"""Lines of one attempt; the rest is counted, so that a loop that prints can't fill the database.
A producer may have a bound in bytes, line ends included, beside it (``--largest-log``)."""

CUT_MARK = " … [cut]"

# A secret across the cut must be known as one; one more is enough to know that it goes on.
_KEPT_CHARACTERS = MAX_LINE_BYTES + MARGIN + 1


class RunLog:
    """Makes lines of what a run writes and passes them to the sink. Thread-safe.

    With ``reads_progress`` a line such as ``::progress 3/10`` is passed on as progress. ``dropped``
    counts the lines over the bound. It ``is_finished`` already when `finish` reports them.
    """

    def __init__(self, context: Attempt, sink: LogSink, reads_progress: bool = False) -> None:
        self._reads_progress = reads_progress
        self._context = context
        self._sink = sink
        self._lock = threading.Lock()
        self._partial: dict[Stream, str] = {}
        self._lines = 0
        self._bytes = 0
        self._is_full = False
        self.dropped = 0
        self.is_finished = False

    def write_line(self, stream: Stream, line: str) -> None:
        """Add one line; nothing happens after `finish`."""
        self._context.gave_sign = True
        with self._lock:
            if not self.is_finished:
                self._emit(stream, line)

    def feed(self, stream: Stream, text: str) -> bool:
        """Add text in which lines end with a newline; False, and nothing done, after `finish`."""
        self._context.gave_sign = True
        with self._lock:
            if self.is_finished:
                return False
            if "\n" in text and self._is_full and not self._may_report(stream, text):
                self.dropped += text.count("\n")
                self._partial[stream] = ""
                text = text[text.rindex("\n") + 1 :]
            *lines, rest = (self._partial.get(stream, "") + text).split("\n")
            for line in lines:
                self._emit(stream, line)
            self._partial[stream] = rest[:_KEPT_CHARACTERS]
            return True

    def finish(self) -> None:
        """Write the unended lines and, if any were dropped, a last line that says how many."""
        with self._lock:
            if self.is_finished:
                return
            for stream, rest in self._partial.items():
                if rest:
                    self._emit(stream, rest)
            self.is_finished = True
            if self.dropped:
                rule = f"a run keeps {MAX_LINES}"
                if self._lines < MAX_LINES and self._context._largest_log is not None:
                    rule = f"its producer may log {self._context._largest_log} bytes an attempt"
                message = f"{self.dropped} more lines were dropped: {rule}"
                self._sink.write(self._context, "log", message)

    def _may_report(self, stream: Stream, text: str) -> bool:
        """Whether it may contain progress, at its beginning or across an unfinished line."""
        return self._reads_progress and (
            MARK in text or self._partial.get(stream, "").startswith("::")
        )

    def _emit(self, stream: Stream, line: str) -> None:
        if self._reads_progress and line.startswith(MARK):
            progress = read_line(line, self._context._masker)
            if progress is not None:
                self._sink.progress(self._context, progress)
                return
        if not self._is_full:
            line = clean_line(line, self._context._masker)
            most = self._context._largest_log
            if most is not None:
                self._bytes += len(line.encode()) + 1
                self._is_full = self._bytes > most
        if self._is_full:
            self.dropped += 1
            return
        self._lines += 1
        self._is_full = self._lines >= MAX_LINES
        self._sink.write(self._context, stream, line)


def clean_line(line: str, own: Masker | None = None) -> str:
    """A line PostgreSQL can keep: no secret, no NUL, no lone surrogate, at most `MAX_LINE_BYTES` of
    UTF-8.
    """
    most = room(MAX_LINE_BYTES)
    is_cut = len(line) > most
    line = masked_beginning(line, MAX_LINE_BYTES, own).removesuffix("\r").replace("\0", "\ufffd")
    encoded = line.encode("utf-8", "replace")
    if most > MAX_LINE_BYTES or (not is_cut and len(encoded) <= most):
        return encoded.decode()  # in the first case the node cuts it
    return encoded[: most - len(CUT_MARK.encode())].decode("utf-8", "ignore") + CUT_MARK
