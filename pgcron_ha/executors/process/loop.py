"""The thread that starts processes through a supervisor, reads what they print and hears how they
end: written once, for programs and for the processes of isolated Python handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from pgcron_ha.executors.contract.attempt import Lease, StopReason
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import Interrupted, Outcome, stopped_early
from pgcron_ha.executors.process.output import (
    FLOOD_SECONDS,
    FloodWatch,
    Lines,
    OutputPipe,
    Watched,
)
from pgcron_ha.executors.process.supervisor_client import Supervision
from pgcron_ha.operating_system import kill_group

_KILL_SECONDS: Final = 5.0
"""How long `close` waits for what it has killed."""

_ORPHAN_SECONDS: Final = 0.05  # between two checks of groups whose supervisor died
_MOST_WAKE_BYTES: Final = 4096

Request = Literal["start", "stop", "kill", "close", "kill all", "end"]


class SupervisedProcess:
    """A process group between its start and its end. ``pid`` is 0 until the supervisor reports
    it; ``context`` is the run that it executes.
    """

    def __init__(self, number: int, context: Context | None = None) -> None:
        self.number = number
        self.context = context
        self.pid = 0
        self.pipes: tuple[OutputPipe, ...] = ()

    def open_pipes(self, log: Lines) -> tuple[int, int]:
        """Make the pipes; gives the writing ends of stdout and stderr. Raises OSError."""
        output, their_output = os.pipe()
        try:
            errors, their_errors = os.pipe()
        except OSError:
            os.close(output)
            os.close(their_output)
            raise
        self.pipes = OutputPipe(output, "stdout", log), OutputPipe(errors, "stderr", log)
        return their_output, their_errors

    def watched(self) -> Sequence[Watched]:
        """All that it may say something through."""
        return self.pipes

    def note_started(self, started: dict[str, Any]) -> None:
        """Take the supervisor's message."""
        self.pid = started["pid"]

    def group_is_gone(self) -> bool:
        """Kill the process group from here (its supervisor died); True when none of it lives."""
        return self.pid == 0 or not kill_group(self.pid)

    def close(self) -> None:
        """Take the rest of the output of what has ended."""
        for pipe in self.pipes:
            pipe.close()

    def last_of_stderr(self) -> str | None:
        """What is kept with an error."""
        return self.pipes[1].tail() if self.pipes else None


Process = TypeVar("Process", bound=SupervisedProcess)


class ProcessLoop(ABC, Generic[Process]):
    """`start`, `stop`, `kill`, `renew_lease` and `close` may be called from any thread, and do not
    wait; all else belongs to the loop's own. A subclass starts `_thread` when it is made.
    """

    def __init__(
        self,
        name: str,
        executor_services: ExecutorServices,
        directory: Path | None = None,
    ) -> None:
        """``directory`` goes with the supervisor."""
        self._done = executor_services.done
        self._failed = executor_services.failed
        self._lease = Lease()
        self._requests: deque[tuple[Request, Sequence[Context]]] = deque()
        self._processes: dict[int, Process] = {}
        self._orphans: list[Process] = []
        self._last_number = 0
        self._has_closed = False
        self._is_closing = False
        self._is_serving = True
        self._nothing_left: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._watch = FloodWatch()
        self._waker = _Waker(self._watch.selector)
        inherit = executor_services.inherit
        self._supervisor = Supervision(self._watch.selector, inherit, directory)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand all over to the thread."""
        self._request("start", contexts)

    def stop(self, context: Context, reason: StopReason) -> None:
        """Ask the run to stop."""
        if context.stop_reason is None:
            context.stop_reason = reason
            self._request("stop", (context,))

    def kill(self, context: Context) -> bool:
        """SIGKILL to the run's process group and all that stem from it."""
        context.stop_reason = context.stop_reason or StopReason.CANCELLED
        self._request("kill", (context,))
        return True

    def renew_lease(self, deadline: float) -> None:
        """The supervisor kills everything at this instant, even if this process is frozen."""
        self._lease.deadline = deadline
        self._waker.wake()

    async def close(self, grace: float) -> None:
        """Stop all runs, kill them after ``grace`` seconds, end the supervisor and the thread."""
        if self._has_closed:
            return
        self._has_closed = True
        nothing_left, ended = map(asyncio.wrap_future, (self._nothing_left, self._ended))
        endings: tuple[tuple[Request, float], ...] = ("close", grace), ("kill all", _KILL_SECONDS)
        for what, seconds in endings:
            if not nothing_left.done():
                self._request(what)
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait({nothing_left, ended}, timeout=seconds, return_when=first)
        self._request("end")
        await ended
        self._thread.join()

    def _request(self, what: Request, contexts: Sequence[Context] = ()) -> None:
        self._requests.append((what, contexts))
        if threading.get_ident() != self._thread.ident:  # else it looks at them before it waits
            self._waker.wake()

    # What a subclass says.

    @abstractmethod
    def _begin(self, context: Context) -> None:
        """Start the run, or keep it until there is a process for it."""

    @abstractmethod
    def _give_up(self, context: Context) -> None:
        """It was asked to stop, and has no process yet."""

    @abstractmethod
    def _waiting(self) -> Sequence[Context]:
        """Runs that have no process yet."""

    @abstractmethod
    def _stop(self, process: Process) -> None:
        """Ask the process to stop its run."""

    def _kill(self, process: Process) -> None:
        self._supervisor.kill(process.number)

    @abstractmethod
    def _bury(self, process: Process, ended: dict[str, Any] | None) -> None:
        """The program and its descendants are gone: `_forget` it and report the outcome. ``ended``
        is the supervisor's message, None if the supervisor is gone, too.
        """

    def _assign(self) -> None:
        """At the end of each turn."""

    def _lease_was_sent(self) -> None:
        """The supervisor knows a new deadline."""

    # The thread.

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self._failed(error)
            self._supervisor.close()  # the processes are killed, their runs have no outcome
            for process in self._processes.values():
                for pipe in process.pipes:
                    os.close(pipe.descriptor)
            self._watch.selector.close()
            self._waker.close()
            raise
        finally:
            self._ended.set_result(None)

    def _serve(self) -> None:
        while self._is_serving:
            self._flush()
            for watched, events in self._watch.ready(0 if self._requests else self._pause()):
                self._attend(watched, events)
            self._waker.drain()
            self._listen()  # after the output: the end of a process closes its pipes
            self._watch.resume()
            if self._supervisor.renew_lease(self._lease.deadline):
                self._lease_was_sent()
            while self._requests:
                self._obey(*self._requests.popleft())
            for process in [each for each in self._orphans if each.group_is_gone()]:
                self._orphans.remove(process)
                self._bury(process, None)
            self._assign()
        self._close()

    def _pause(self) -> float | None:
        if self._orphans:
            return _ORPHAN_SECONDS
        return FLOOD_SECONDS if self._watch.has_paused else None

    def _attend(self, watched: Watched, events: int) -> None:
        if isinstance(watched, OutputPipe):
            if watched.read() == 0:
                self._watch.remove(watched)
            self._watch.pause_a_flood(watched)

    def _flush(self) -> None:
        self._supervisor.flush()

    def _listen(self) -> None:
        messages = self._supervisor.receive()
        if messages is None:
            self._lose_supervisor()
        for message in messages or ():
            process = self._processes[message["run"]]
            if message["event"] == "started":
                process.note_started(message)
            else:
                self._bury(process, message)

    def _lose_supervisor(self) -> None:
        """Somebody killed it. Its children die with it; the next start makes a new one."""
        self._orphans = list(self._processes.values())

    def _obey(self, what: Request, contexts: Sequence[Context]) -> None:
        for context in contexts:
            process: Any = context._work
            if what == "start":
                self._begin(context)
            elif isinstance(process, SupervisedProcess) and process.context is context:
                self._end_one(what, self._processes[process.number])
            else:
                self._give_up(context)
        if what in ("close", "kill all"):
            self._is_closing = True
            for context in self._waiting():
                context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
                self._give_up(context)
            for process in self._processes.values():
                if process.context is not None:
                    process.context.stop_reason = process.context.stop_reason or StopReason.SHUTDOWN
                self._end_one(what, process)
        elif what == "end":
            self._is_serving = False
        self._note_nothing_left()

    def _end_one(self, what: Request, process: Process) -> None:
        if what in ("kill", "kill all"):
            self._kill(process)
        elif process.context is not None:
            self._stop(process)

    def _forget(self, process: Process) -> None:
        """After its end: take the rest of what it said."""
        del self._processes[process.number]
        for watched in process.watched():
            self._watch.remove(watched)
        process.close()

    def _finish(self, context: Context, outcome: Outcome) -> None:
        context._work = None
        self._done(context, outcome)
        self._note_nothing_left()

    def _refuse(self, context: Context) -> None:
        context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
        self._finish(context, stopped_early(context.stop_reason))

    def _refuse_requests(self) -> None:
        """Once the thread has ended: what came too late is not begun."""
        while self._requests:
            with contextlib.suppress(IndexError):  # another thread was quicker
                what, contexts = self._requests.popleft()
                for context in contexts if what == "start" else ():
                    self._refuse(context)

    def _note_nothing_left(self) -> None:
        is_over = self._is_closing and not self._nothing_left.done()
        if is_over and not self._processes and not self._waiting():
            self._nothing_left.set_result(None)

    def _close(self) -> None:
        gone = self._supervisor.close()
        for process in list(self._processes.values()):
            self._forget(process)
            if gone and process.context is not None:
                reason = process.context.stop_reason or StopReason.SHUTDOWN
                ended = Interrupted(reason, "killed at the end of the node")
                self._finish(process.context, ended)
        for context in self._waiting():
            self._give_up(context)
        self._refuse_requests()
        self._watch.selector.close()
        self._waker.close()


class _Waker:
    """Wakes a thread that waits in a selector; `wake` may be called from any thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._heard, self._said = socket.socketpair()
        self._heard.setblocking(False)
        self._said.setblocking(False)
        selector.register(self._heard, selectors.EVENT_READ)

    def wake(self) -> None:
        """The thread's next wait, or the one under way, ends at once. Never waits."""
        with contextlib.suppress(OSError):  # full: it is awake already; closed: nothing to do
            self._said.send(b"\0")

    def drain(self) -> None:
        """Awake: forget how often that was said."""
        with contextlib.suppress(BlockingIOError):
            self._heard.recv(_MOST_WAKE_BYTES)

    def close(self) -> None:
        """After the selector."""
        self._heard.close()
        self._said.close()
