"""One run of a template as the node sees it: its output, its process, its outcome."""

from __future__ import annotations

import codecs
import os
from datetime import timedelta
from typing import Any, Literal, Protocol

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.executors.contract.attempt import LogSink, StopReason, Stream
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.log_lines import RunLog
from pgcron_ha.executors.contract.masking import MARGIN, mask
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Failed, Interrupted, Outcome
from pgcron_ha.operating_system import how_it_ended, kill_group

READ_BYTES = 65536
"""Of one read; also what a pipe holds by default."""

MAX_TAIL_BYTES = 2048
"""The end of stderr that is kept with the error of a run."""

_MAX_LAST_READS = 32  # what a pipe may hold after its last writer is gone (1 MiB, enlarged), twice


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

    def tail(self) -> str | None:
        """The last of it, without secrets; None without any."""
        text = mask(self._tail.decode("utf-8", "replace"))
        if len(self._tail) >= MAX_TAIL_BYTES + MARGIN:
            text = text[MARGIN:]  # it may begin with a part of one
        return bounded_text(text[-MAX_TAIL_BYTES:]) or None

    def close(self) -> None:
        """Read what the ended processes left in the pipe, and close it."""
        for _ in range(_MAX_LAST_READS):
            if self.read() <= 0:
                break
        os.close(self.descriptor)


class ShellRun:
    """A run between its start and its end. ``pid`` is 0 until the supervisor has told it."""

    def __init__(self, number: int, context: Context, template: ShellTemplate) -> None:
        self.number = number
        self.context = context
        self.template = template
        self.pid = 0
        self.pipes: tuple[OutputPipe, ...] = ()
        self._log: RunLog | None = None

    def open_pipes(self, sink: LogSink) -> tuple[int, int]:
        """Make the pipes; gives the writing ends of stdout and stderr. Raises OSError."""
        self._log = log = RunLog(self.context, sink, reads_progress=True)
        output, their_output = os.pipe()
        try:
            errors, their_errors = os.pipe()
        except OSError:
            os.close(output)
            os.close(their_output)
            raise
        self.pipes = OutputPipe(output, "stdout", log), OutputPipe(errors, "stderr", log)
        return their_output, their_errors

    def close(self) -> None:
        """Take the rest of the output."""
        for pipe in self.pipes:
            pipe.close()
        if self._log is not None:
            self._log.finish()

    def outcome(self, ended: dict[str, Any]) -> Outcome:
        """What became of it, after `close`. ``ended`` is the supervisor's message."""
        cause, status = ended["cause"], ended["status"]
        if cause is not None:
            return self._interrupted(cause, status)
        if ended["error"] is not None:
            return Failed("CouldNotStart", bounded_text(ended["error"]))
        if status == 0:
            return SUCCEEDED
        return self._failed(status)

    def group_is_gone(self) -> bool:
        """Kill the process group from here (its supervisor died); True when none of it lives."""
        return self.pid == 0 or not kill_group(self.pid)

    def _failed(self, status: int) -> Failed:
        template = self.template
        is_snoozed = status in template.snooze_on
        is_final = status in template.discard_on or (
            template.retry_on is not None and status not in template.retry_on
        )
        return Failed(
            "ExitStatus" if status > 0 else "KilledBySignal",
            how_it_ended(status),
            self._last_of_stderr(),
            retry=is_snoozed or not is_final,
            exit_status=status,
            after=timedelta(seconds=template.snooze) if is_snoozed else None,
            snooze=is_snoozed,
        )

    def _interrupted(self, cause: str, status: int | None) -> Interrupted:
        if cause == "lease":
            reason = StopReason.LEASE_LOST
        elif cause == "timeout":
            reason = StopReason.TIMED_OUT
        else:
            reason = self.context.stop_reason or StopReason.CANCELLED
        if self.context.stop_reason is None:
            self.context.stop_reason = reason
        how = "it had not begun" if status is None else how_it_ended(status)
        return Interrupted(reason, f"stopped ({reason}): {how}")

    def _last_of_stderr(self) -> str | None:
        return self.pipes[1].tail() if self.pipes else None
