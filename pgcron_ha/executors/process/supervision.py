"""Processes that a node starts through a supervisor: programs, and those of isolated handlers; and
what they print: pipes that are read, and how a flood of one is slowed down.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pgcron_ha.executors.contract.attempt import StopReason, Stream
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.masking import MARGIN, mask
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome
from pgcron_ha.executors.process.supervisor_client import SupervisorClient
from pgcron_ha.operating_system import how_it_ended, kill_group

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


_ORPHAN_SECONDS: Final = 0.05  # between two checks of a group whose supervisor died

# Of the supervisor's own causes; what it was asked for has the run's reason.
_REASONS: Final = {"lease": StopReason.LEASE_LOST, "timeout": StopReason.TIMED_OUT}


class SupervisedProcess:
    """A process group between its start and its end. ``pid`` is 0 until the supervisor reports it.

    ``ended`` is done when all of the group is gone: with the supervisor's message, with None if the
    supervisor was killed. Its output goes to ``log``.
    """

    number = 0

    def __init__(self, log: Lines) -> None:
        self.pid = 0
        self.ended: asyncio.Future[dict[str, Any] | None]
        self.ended = asyncio.get_running_loop().create_future()
        self.pipes: tuple[OutputPipe, ...] = ()
        self._log = log

    def open(self) -> tuple[int, ...]:
        """Make the pipes; gives the writing ends of stdout and stderr. Raises OSError."""
        output, their_output = os.pipe()
        try:
            errors, their_errors = os.pipe()
        except OSError:
            os.close(output)
            os.close(their_output)
            raise
        self.pipes = (
            OutputPipe(output, "stdout", self._log),
            OutputPipe(errors, "stderr", self._log),
        )
        return their_output, their_errors

    def note_started(self, started: dict[str, Any]) -> None:
        """Take the supervisor's message."""
        self.pid = started["pid"]

    def close(self) -> None:
        """Take the rest of the output of what has ended, or could not be started."""
        for pipe in self.pipes:
            pipe.close()

    def last_of_stderr(self) -> str | None:
        """What is kept with an error."""
        return self.pipes[1].tail() if self.pipes else None


def outcome_of_force(context: Context, ended: dict[str, Any] | None) -> Outcome:
    """Of a run whose process was stopped; ``ended`` is None if the supervisor was, with it."""
    if ended is None:
        message = "the supervisor of this node's processes was killed, and the run's with it"
        return Failed("SupervisorLost", message)
    how = "it had not begun" if ended["status"] is None else how_it_ended(ended["status"])
    reason = _REASONS.get(ended["cause"]) or context.stop_reason or StopReason.CANCELLED
    context.stop_reason = context.stop_reason or reason
    return Interrupted(reason, f"stopped ({reason}): {how}")


@dataclass(eq=False)
class Supervision:
    """A supervisor, made when it is needed and replaced when it was killed. Used on one event loop.

    ``inherit`` and ``directory`` are those of its client.
    """

    loop: asyncio.AbstractEventLoop
    inherit: Sequence[int]
    directory: Path | None = None
    _client: SupervisorClient | None = None
    _processes: dict[int, SupervisedProcess] = field(default_factory=dict)
    _last_number: int = 0
    _deadline: float = math.inf

    def open(self) -> None:
        """Unless it is. Raises OSError when it can't be started."""
        if self._client is None:
            self._client = SupervisorClient(self.inherit, self.directory)
            self._client.listen(self.loop, self._hear, self._lose)
            self.renew_lease(self._deadline)

    def start(self, process: SupervisedProcess, **message: Any) -> None:
        """Start it. Raises OSError when there is no supervisor and none can be started, or no room
        for pipes; then the process is closed.
        """
        try:
            self.open()
            descriptors = process.open()
        except OSError:
            process.close()
            raise
        self._last_number += 1
        process.number = self._last_number
        self._processes[process.number] = process
        message = {"run": process.number, "descriptors": len(descriptors), **message}
        self._say({"do": "run", **message}, descriptors)

    def stop(self, process: SupervisedProcess) -> None:
        """SIGTERM to the process group, and SIGKILL when its grace is over."""
        self._say({"do": "stop", "run": process.number})

    def kill(self, process: SupervisedProcess) -> None:
        """SIGKILL to the process and all that stem from it."""
        self._say({"do": "kill", "run": process.number})

    def spare(self, process: SupervisedProcess, is_spared: bool) -> None:
        """Whether it lives on when the lease is over."""
        self._say({"do": "spare", "run": process.number, "outlives_lease": is_spared})

    def renew_lease(self, deadline: float) -> None:
        """The supervisor kills everything at this instant, even if this process is frozen."""
        self._deadline = deadline
        self._say({"do": "lease", "deadline": deadline})

    def close(self) -> None:
        """End it and all children."""
        if self._client is not None:
            self._client.close()
        for process in self._processes.values():
            process.close()

    def _say(self, message: dict[str, Any], passed: tuple[int, ...] = ()) -> None:
        if self._client is not None:
            self._client.send(message, passed)

    def _hear(self, message: dict[str, Any]) -> None:
        process = self._processes[message["run"]]
        if message["event"] == "started":
            process.note_started(message)
        else:
            self._end(self._processes.pop(process.number), message)

    def _end(self, process: SupervisedProcess, ended: dict[str, Any] | None) -> None:
        try:
            process.close()
        finally:
            process.ended.set_result(ended)

    def _lose(self, _: str | None) -> None:
        """Somebody killed it. Its children die with it; the next start makes a new one."""
        assert self._client is not None
        self._client.close()
        self._client = None
        orphans, self._processes = self._processes, {}
        for process in orphans.values():
            self.loop.create_task(self._bury(process))

    async def _bury(self, orphan: SupervisedProcess) -> None:
        while orphan.pid and kill_group(orphan.pid):  # noqa: ASYNC110 (it can't be waited for)
            await asyncio.sleep(_ORPHAN_SECONDS)
        self._end(orphan, None)
