"""One child process as the node sees it: what it executes, what it says, how it ended."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from pgcron_ha.executors.contract.attempt import StopReason, Stream
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome, stopped_early
from pgcron_ha.executors.process.conversation import Conversation
from pgcron_ha.executors.process.loop import SupervisedProcess
from pgcron_ha.executors.process.output import Watched
from pgcron_ha.executors.python.child_messages import Heard, context_members, heard
from pgcron_ha.executors.python.isolation import Isolation
from pgcron_ha.operating_system import how_it_ended

MOST_RUNS: Final = 1_000
"""Of one process; what a library leaks ends with it."""

MOST_GROWTH_BYTES: Final = 128 * 1024 * 1024
"""What a process may hold after a run beyond what it held when it was warm."""


class State(Enum):
    """What a child is doing."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"


class ChildProcess(SupervisedProcess, Conversation):
    """``fault`` is why the node itself killed it, ``pending`` an outcome that is reported when the
    process is gone; ``silent_since`` is the instant at which its end of the socket was closed,
    ``since`` that of its state.
    """

    def __init__(self, number: int) -> None:
        SupervisedProcess.__init__(self, number)
        Conversation.__init__(self)
        self.state = State.STARTING
        self.since = time.monotonic()
        self.isolation = Isolation()
        self.has_begun = False
        self.fault: str | None = None
        self.pending: Outcome | None = None
        self.silent_since: float | None = None
        self._runs = 0
        self._warm_bytes = 0

    def open(self) -> tuple[int, ...]:
        """Make its pipes and its socket; gives the ends that are its own. Raises OSError."""
        control = self.open_socket()
        try:
            theirs = self.open_pipes(self)
        except OSError:
            self.socket.close()
            control.close()
            raise
        return (*theirs, control.detach())

    def watched(self) -> Sequence[Watched]:
        """All that it may send data through; the object itself represents its socket."""
        return self, *self.pipes

    def feed(self, stream: Stream, text: str) -> bool:
        """Output belongs to the run that executes; what comes between runs goes nowhere."""
        log = None if self.context is None else self.context._open_log()
        return log is not None and log.feed(stream, text)

    # What the node says.

    @property
    def outlives_lease(self) -> bool:
        """Whether it executes a run that goes on without a lease."""
        return self.context is not None and self.context.outlives_lease

    def say(self, message: dict[str, Any]) -> None:
        """Send as much as the socket takes; `flush` sends the rest."""
        self.queue(message)
        self.flush()

    def begin(self, context: Context, isolation: Isolation, lease: float) -> None:
        """Hand a run over; ``lease`` is the boottime instant at which the node's lease ends. Raises
        the error of args that can't be sent; then the process is unchanged.
        """
        lease = math.inf if context.outlives_lease else lease
        limits = {"memory": isolation.memory, "cpu": isolation.cpu, "lease": lease}
        members = context_members(context)
        message = {"do": "run", "run": self._runs + 1, "context": members, **limits}
        self.queue(message)  # what raises comes before this
        self.state, self.context, self.isolation = State.BUSY, context, isolation
        self._runs += 1
        self.has_begun = False
        context._work = self
        self.flush()

    def ask_to_stop(self, reason: StopReason) -> None:
        """Its handler learns it as in a node: by cancellation or from `Context.check`."""
        self.say({"do": "stop", "run": self._runs, "reason": reason})

    # What the child says.

    def receive(self) -> list[Heard] | None:
        """The messages that have arrived; None at the end of the stream. Raises `BadMessage`."""
        messages = self.received()
        return None if messages is None else [heard(each) for each in messages]

    def is_of_now(self, message: Heard) -> bool:
        """Whether it is about the run that executes."""
        return self.state is State.BUSY and message.run == self._runs

    def note_ready(self, message: Heard) -> None:
        """It has imported the handlers and waits for runs."""
        self._warm_bytes = message.resident

    def outcome(self, message: Heard) -> Outcome:
        """Of the run that ended."""
        outcome, memory = message.outcome, self.isolation.memory
        assert outcome is not None  # of such a message
        if memory and isinstance(outcome, Failed) and outcome.error_class == "MemoryError":
            reported = f"the handler's process may hold {memory / 1e6:.0f} MB of memory"
            return replace(outcome, message=bounded_text(f"{reported}: {outcome.message}"))
        return outcome

    def is_spent(self, message: Heard) -> bool:
        """Whether it shall make place for a fresh one after this run."""
        return self._runs >= MOST_RUNS or message.resident - self._warm_bytes > MOST_GROWTH_BYTES

    # Its end.

    def read_rest(self) -> None:
        """What was written before the run ended is in the pipes."""
        for pipe in self.pipes:
            pipe.read_rest()

    def close(self) -> None:
        """After the end of the process."""
        super().close()
        if self.pipes:
            self.socket.close()

    def end_conversation(self) -> None:
        """Nothing more comes from the node: the child ends."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def can_be_replaced(self, context: Context) -> bool:
        """Whether it died, used and idle, before it saw the run that was on its way to it."""
        return not self.has_begun and self._runs > 1 and context.stop_reason is None

    def outcome_of_death(self, context: Context, ended: dict[str, Any] | None) -> Outcome:
        """Of the run that it executed. ``ended`` is the supervisor's message, None if that died."""
        if ended is None:
            message = (
                "the supervisor of this node's processes was killed, and the handler's with it"
            )
            return Failed("SupervisorLost", message)
        status, cause = ended["status"], ended["cause"]
        how = "it had not begun" if status is None else how_it_ended(status)
        if cause == "lease" and context.stop_reason is None:
            context.stop_reason = StopReason.LEASE_LOST
        if context.stop_reason is not None:
            return Interrupted(context.stop_reason, f"stopped ({context.stop_reason}): {how}")
        if self.fault is not None and status == -signal.SIGKILL:
            return Failed("BadChild", bounded_text(f"{self.fault}; its process was {how}"))
        tail = self.last_of_stderr()
        if status is None:
            return Failed("CouldNotStart", bounded_text(str(ended["error"])), tail)
        if status >= 0:
            message = f"the handler's process {how} before the handler had returned"
            return Failed("ExitStatus", message, tail, exit_status=status)
        if status == -signal.SIGXCPU:
            message = f"the handler used more than {self.isolation.cpu:g} s of processor time"
            return Failed("CpuLimit", f"{message}: {how}", tail, exit_status=status)
        if status == -signal.SIGKILL:
            how += ", by a person, or by the system when it had no memory left"
        return Failed(
            "KilledBySignal", f"the handler's process was {how}", tail, exit_status=status
        )

    def why_it_did_not_start(self, ended: dict[str, Any] | None) -> Outcome:
        """Of the run that waited for it."""
        if ended is None:
            return Failed("SupervisorLost", "the supervisor of this node's processes was killed")
        if ended["cause"] == "lease":
            return stopped_early(StopReason.LEASE_LOST)
        status = ended["status"]
        how = ended["error"] or ("" if status is None else f"its process {how_it_ended(status)}")
        message = f"no process for the handler could be started: {self.fault or how}"
        return Failed("CouldNotStart", bounded_text(message), self.last_of_stderr())
