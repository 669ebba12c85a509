"""Executors whose runs are processes that a supervisor starts: programs, and those of isolated
handlers; and what they print: pipes that are read, and how a flood of one is slowed down.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from pgcron_ha.executors.contract.attempt import StopReason, Stream
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.masking import MARGIN, Masker, mask
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome
from pgcron_ha.executors.contract.tasks import TaskExecutor
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

_log: Final = logging.getLogger(__name__)


class OutputPipe:
    """The reading end of stdout or stderr, read by the running event loop until `close`.

    ``feed`` takes the text, in which lines end with a newline.
    """

    def __init__(self, descriptor: int, feed: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._feed = feed
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

    def tail(self, own: Masker | None = None) -> str | None:
        """The last of it, without secrets; None without any."""
        text = mask(self._tail.decode("utf-8", "replace"), own=own)
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
        self._feed(self._decoder.decode(data, final=not data))
        self._tail = (self._tail + data)[-MAX_TAIL_BYTES - MARGIN :]
        return len(data)


_ORPHAN_SECONDS: Final = 0.05  # between two checks of a group whose supervisor died


class SupervisedProcess:
    """A process group between its start and its end. ``pid`` is 0 until the supervisor reports it.

    ``ended`` is done when all of the group is gone: with the supervisor's message, with None if the
    supervisor was killed. Its output goes to the log of ``context``, the run that it executes.
    """

    number = 0

    def __init__(self, context: Context | None = None) -> None:
        self.context = context
        self.pid = 0
        self.ended = asyncio.Future[dict[str, Any] | None]()
        self.pipes: tuple[OutputPipe, ...] = ()

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
            OutputPipe(output, partial(self._feed, "stdout")),
            OutputPipe(errors, partial(self._feed, "stderr")),
        )
        return their_output, their_errors

    def close(self) -> None:
        """Take the rest of the output of what has ended, or could not be started."""
        for pipe in self.pipes:
            pipe.close()

    def last_of_stderr(self) -> str | None:
        """What is kept with an error."""
        own = None if self.context is None else self.context._masker
        return self.pipes[1].tail(own) if self.pipes else None

    def _feed(self, stream: Stream, text: str) -> None:
        """What comes between runs goes nowhere."""
        if self.context is not None and (log := self.context._open_log()) is not None:
            log.feed(stream, text)


def outcome_of_force(context: Context, ended: dict[str, Any] | None) -> Outcome:
    """Of a run whose process was stopped; ``ended`` is None if the supervisor was, with it."""
    if ended is None:
        message = "the supervisor of this node's processes was killed, and the run's with it"
        return Failed("SupervisorLost", message)
    how = "it had not begun" if ended["status"] is None else how_it_ended(ended["status"])
    is_lease = ended["cause"] == "lease"
    reason = StopReason.LEASE_LOST if is_lease else context.stop_reason or StopReason.CANCELLED
    context.stop_reason = context.stop_reason or reason
    return Interrupted(reason, f"stopped ({reason}): {how}")


class ProcessExecutor(TaskExecutor):
    """Its runs are executed by processes of a supervisor, which is made when it is needed and
    replaced when it was killed.
    """

    end_seconds: ClassVar[None] = None  # a process may be long in dying
    _directory: Path | None = None
    """It is removed at the supervisor's end."""
    _processes: dict[int, Any]
    """All that it has started and that have not ended, by their numbers."""

    def __init__(
        self, kind: str, handlers: Iterable[str], executor_services: ExecutorServices
    ) -> None:
        self._inherit = executor_services.inherit
        self._supervisor: SupervisorClient | None = None
        self._processes = {}
        self._last_number = 0
        super().__init__(kind, handlers, executor_services)

    def renew_lease(self, deadline: float) -> None:
        """The supervisor kills everything at this instant, even if this process is frozen."""
        super().renew_lease(deadline)
        self._post(self._pass_lease_on)

    def interrupt(self, context: Context) -> None:
        """Ask its process, if it has one by now."""
        if isinstance(context._work, SupervisedProcess):
            self._ask_to_stop(context, context._work)
        else:
            self.cancel(context)

    async def end(self, context: Context) -> None:
        """SIGKILL to its process and all that stem from it."""
        process = context._work
        if isinstance(process, SupervisedProcess):
            self._kill_process(process)
            await asyncio.shield(process.ended)
        else:
            self.cancel(context)

    async def shut(self) -> None:
        """End the supervisor, and all processes with it."""
        if self._supervisor is not None:
            self._supervisor.close()
        for process in self._processes.values():
            process.close()

    def _ask_to_stop(self, context: Context, process: Any) -> None:
        """SIGTERM to the process group."""
        self._say("stop", process.number)

    def _kill_process(self, process: Any) -> None:
        self._say("kill", process.number)

    def _pass_lease_on(self) -> None:
        self._say("lease", deadline=self._services.deadline)

    def _open_supervisor(self) -> None:
        """Unless there is one. Raises OSError when it can't be started."""
        if self._supervisor is None:
            self._supervisor = SupervisorClient(self._inherit, self._directory)
            self._supervisor.listen(self._loop, self._hear, self._lose)
            self._pass_lease_on()

    def _start_process(self, process: SupervisedProcess, **message: Any) -> None:
        """Raises OSError when there is no supervisor and none can be started, or no room for pipes;
        then the process is closed.
        """
        try:
            self._open_supervisor()
            descriptors = process.open()
        except OSError:
            process.close()
            raise
        self._last_number += 1
        process.number = self._last_number
        self._processes[process.number] = process
        self._say("run", process.number, descriptors, descriptors=len(descriptors), **message)

    def _say(self, do: str, number: int = 0, passed: tuple[int, ...] = (), **message: Any) -> None:
        if self._supervisor is not None:
            self._supervisor.send({"do": do, "run": number, **message}, passed)

    def _hear(self, message: dict[str, Any]) -> None:
        process: SupervisedProcess = self._processes[message["run"]]
        if message["event"] == "started":
            process.pid = message["pid"]
        else:
            self._note_end(self._processes.pop(process.number), message)

    def _note_end(self, process: SupervisedProcess, ended: dict[str, Any] | None) -> None:
        try:
            process.close()
        finally:
            process.ended.set_result(ended)

    def _lose(self, problem: Exception | None) -> None:
        """Somebody killed it. Its children die with it; the next start makes a new one."""
        if problem is not None:  # it is our own program: what it says is as it should be
            message = "what a supervisor said of %s: processes broke the node's code; they end"
            _log.error(message, self.kind, exc_info=problem)
        assert self._supervisor is not None
        self._supervisor.close()
        self._supervisor = None
        orphans, self._processes = self._processes, {}
        for process in orphans.values():
            self._loop.create_task(self._bury(process))

    async def _bury(self, orphan: SupervisedProcess) -> None:
        while orphan.pid and kill_group(orphan.pid):  # noqa: ASYNC110 (it can't be waited for)
            await asyncio.sleep(_ORPHAN_SECONDS)
        self._note_end(orphan, None)
