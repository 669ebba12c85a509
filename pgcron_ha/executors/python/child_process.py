"""One child process as the node sees it: what it executes, what it says, how it ended.

Messages are JSON, one a line. To the child: ``open`` (once), ``run``, ``stop``, ``lease``; the end
of the stream ends it. From the child: ``ready`` (with the bytes that it holds) or ``failed``, then
``begun``, ``line``, ``progress``, ``beat`` and ``ended`` (with the bytes that it holds, how many
processes the run has started and ``left``, how many lines were ``dropped``, and what it has
``declared``). What comes from a child is checked: code of its handler may have written it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import math
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import (
    SUCCEEDED,
    Failed,
    Interrupted,
    Outcome,
    Succeeded,
    stopped_early,
)
from pgcron_ha.executors.process.conversation import Conversation
from pgcron_ha.executors.process.supervision import SupervisedProcess, outcome_of_force
from pgcron_ha.executors.python.handler import Isolation
from pgcron_ha.operating_system import how_it_ended

MOST_RUNS: Final = 1_000
"""Of one process; what a library leaks ends with it."""

MOST_GROWTH_BYTES: Final = 128 * 1024 * 1024
"""What a process may hold after a run beyond what it held when it was warm."""


State: TypeAlias = Literal["starting", "idle", "busy", "leaving"]
"""What a child is doing."""


class ChildProcess(SupervisedProcess):
    """``fault`` is why the node itself killed it. ``over`` is done when its run has ended, with
    its outcome; then ``left`` counts the processes that the run has started and that still live.
    """

    def __init__(
        self,
        ready: Callable[[ChildProcess], None],
        lost: Callable[[ChildProcess, Exception | None], None],
    ) -> None:
        """``ready`` is called when it waits for its first run, ``lost`` when it says no more, with
        the error that what it said has raised.
        """
        super().__init__()
        self._ready, self._lost = ready, lost
        self.state: State = "starting"
        self.isolation = Isolation()
        self.fault: str | None = None
        self.over: asyncio.Future[Outcome]
        self.left = 0
        self.conversation = Conversation()
        self._timer: asyncio.TimerHandle | None = None
        self._runs = 0
        self._warm_bytes = self._resident_bytes = 0

    def open(self) -> tuple[int, ...]:
        """Make its pipes; gives the ends that are its own. Raises OSError."""
        theirs = super().open()
        self.conversation.listen(self.ended.get_loop(), self._hear, partial(self._lost, self))
        return (*theirs, self.conversation.theirs.detach())

    def change(
        self, state: State, seconds: float | None = None, then: Callable[..., None] | None = None
    ) -> None:
        """If it is still in this state after so many seconds, ``then`` is called with it."""
        self.state = state
        if self._timer is not None:
            self._timer.cancel()
        loop = self.ended.get_loop()
        self._timer = loop.call_later(seconds, then, self) if seconds and then else None

    # To the child.

    def begin(self, context: Context, isolation: Isolation, lease: float) -> None:
        """Hand a run over; ``lease`` is the boottime instant at which the node's lease ends."""
        lease = math.inf if context.outlives_lease else lease
        limits = {"memory": isolation.memory, "cpu": isolation.cpu, "lease": lease}
        members = {name: getattr(context, name) for name in _OF_A_CONTEXT}
        self.conversation.send({"do": "run", "run": self._runs + 1, "context": members, **limits})
        self.change("busy")
        self.context, self.isolation = context, isolation
        self.over = self.ended.get_loop().create_future()
        self._runs += 1

    def ask_to_stop(self, reason: StopReason) -> None:
        """Its handler learns it as in a node: by cancellation or from `Context.check`."""
        self.conversation.send({"do": "stop", "run": self._runs, "reason": reason})

    # From the child.

    def _hear(self, message: dict[str, Any]) -> None:
        """Takes nothing for granted: code of a handler may have written the message."""
        event, context = message["event"], self.context
        if event == "ready" and self.state == "starting":
            self._warm_bytes = int(message["resident"])
            self._ready(self)
        elif event == "failed":
            self.fault = str(message["message"])
        elif context is None or message["run"] != self._runs:
            return  # of a run that has ended
        elif event == "begun":
            context.started_monotonic = monotonic()
        elif event == "beat":
            context.beat()
        elif event == "progress":
            context.progress(message["done"], message["total"], message["note"])
        elif event == "line" and message["stream"] in ("stdout", "stderr", "log"):
            context.log(str(message["line"]), message["stream"])
        elif event == "ended":
            self._note_end(context, message)
        else:
            raise ValueError(f"an event of no known kind: {message!r:.200}")

    def _note_end(self, context: Context, message: dict[str, Any]) -> None:
        outcome, memory = outcome_from(message["outcome"]), self.isolation.memory
        self.left, dropped = int(message["left"]), int(message["dropped"])
        self._resident_bytes = int(message["resident"])
        declared = dict(message["declared"])
        for name, metadata in dict(declared.get("assets", {})).items():
            context.update_asset(name, metadata)
        for step in dict(declared.get("steps", {})).values():
            context.add_step(**step)
        for pipe in self.pipes:  # what was written before the run ended
            pipe.read_rest()
        if dropped and (log := context._open_log()) is not None:
            log.dropped += dropped  # before they came here
        if memory and isinstance(outcome, Failed) and outcome.error_class == "MemoryError":
            reported = f"the handler's process may hold {memory / 1e6:.0f} MB of memory"
            outcome = dataclasses.replace(outcome, message=f"{reported}: {outcome.message}")
        self.context = None
        self.over.set_result(outcome)

    @property
    def is_idle(self) -> bool:
        """Whether it can execute a run now."""
        return self.state == "idle" and self.conversation.is_heard

    def is_fit(self) -> bool:
        """Whether it can execute another run; else a fresh one takes its place."""
        growth = self._resident_bytes - self._warm_bytes
        is_spent = self._runs >= MOST_RUNS or growth > MOST_GROWTH_BYTES
        return self.conversation.is_heard and not is_spent

    # Its end.

    def close(self) -> None:
        """After the end of the process."""
        self.conversation.receive_rest()
        self.conversation.close()
        super().close()
        self.change(self.state)

    def can_be_replaced(self, context: Context) -> bool:
        """Whether it died, used and idle, before it saw the run that was on its way to it."""
        is_new = context.started_monotonic is None and context.stop_reason is None
        return is_new and self._runs > 1

    def outcome_of_death(self, context: Context, ended: dict[str, Any] | None) -> Outcome:
        """Of the run that it executed. ``ended`` is the supervisor's message, None if that died."""
        if ended is None or ended["cause"] == "lease" or context.stop_reason is not None:
            return outcome_of_force(context, ended)
        status, tail = ended["status"], self.last_of_stderr()
        how = how_it_ended(status)
        if self.fault is not None and status == -signal.SIGKILL:
            return Failed("BadChild", f"{self.fault}; its process was {how}")
        if status >= 0:
            message = f"the handler's process {how} before the handler had returned"
            return Failed("ExitStatus", message, tail, exit_status=status)
        if status == -signal.SIGXCPU:
            message = f"the handler used more than {self.isolation.cpu:g} s of processor time"
            return Failed("CpuLimit", f"{message}: {how}", tail, exit_status=status)
        if status == -signal.SIGKILL:
            how += ", by a person, or by the system when it had no memory left"
        message = f"the handler's process was {how}"
        return Failed("KilledBySignal", message, tail, exit_status=status)

    def why_it_did_not_start(self, ended: dict[str, Any] | None) -> Outcome:
        """Of the run that waited for it."""
        if ended is None:
            return Failed("SupervisorLost", "the supervisor of this node's processes was killed")
        if ended["cause"] == "lease":
            return stopped_early(StopReason.LEASE_LOST)
        status = ended["status"]
        how = ended["error"] or ("" if status is None else f"its process {how_it_ended(status)}")
        message = f"no process for the handler could be started: {self.fault or how}"
        return Failed("CouldNotStart", message, self.last_of_stderr())


# Contexts and outcomes as messages.

_OF_A_CONTEXT: Final = tuple(inspect.signature(Context).parameters)


def context_from(members: dict[str, Any]) -> Context:
    """The context with these members, of which ids and instants are texts."""
    members["run_uuid"], members["token"] = UUID(members["run_uuid"]), UUID(members["token"])
    if members["fire_time"] is not None:
        members["fire_time"] = datetime.fromisoformat(members["fire_time"])
    return Context(**members)


def outcome_members(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON values."""
    if isinstance(outcome, Succeeded):
        return {"text": outcome.text}
    members = dataclasses.asdict(outcome)
    if isinstance(outcome, Failed) and outcome.after is not None:
        members["after"] = outcome.after.total_seconds()
    return members


def outcome_from(members: dict[str, Any]) -> Outcome:
    """The outcome that `outcome_members` wrote. Raises what its members raise if it is none."""
    if "text" in members:
        text = members["text"]
        return SUCCEEDED if text is None else Succeeded(json.loads(text))
    if "reason" in members:
        return Interrupted(StopReason(members["reason"]), str(members["message"]))
    if members["after"] is not None:
        members["after"] = timedelta(seconds=members["after"])
    members["causes"] = tuple(map(str, members["causes"]))
    return Failed(**members)
