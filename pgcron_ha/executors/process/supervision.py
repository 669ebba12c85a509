"""Processes that a node starts through a supervisor: programs, and those of isolated handlers."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome
from pgcron_ha.executors.process.output import Lines, OutputPipe
from pgcron_ha.executors.process.supervisor_client import SupervisorClient
from pgcron_ha.operating_system import how_it_ended, kill_group

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


class Supervision:
    """A supervisor, made when it is needed and replaced when it was killed. Used on one event loop.

    ``inherit`` and ``directory`` are those of its client.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inherit: Sequence[int],
        directory: Path | None = None,
    ) -> None:
        self._loop = loop
        self._inherit = tuple(inherit)
        self._directory = directory
        self._client: SupervisorClient | None = None
        self._processes: dict[int, SupervisedProcess] = {}
        self._last_number = 0
        self._deadline = math.inf

    def open(self) -> None:
        """Unless it is. Raises OSError when it can't be started."""
        if self._client is None:
            self._client = SupervisorClient(self._inherit, self._directory)
            self._client.listen(self._loop, self._hear, self._lose)
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
            self._loop.create_task(self._bury(process))

    async def _bury(self, orphan: SupervisedProcess) -> None:
        while orphan.pid and kill_group(orphan.pid):  # noqa: ASYNC110 (it can't be waited for)
            await asyncio.sleep(_ORPHAN_SECONDS)
        self._end(orphan, None)
