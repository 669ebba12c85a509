"""Executes isolated ``py:`` handlers in warm child processes, each one run at a time.

They are fresh interpreters that import the Apps by their names, not copies of a process with
threads. A run that finds one waiting costs a fraction of a millisecond; one that does not waits for
an interpreter and the imports of the Apps. They are started by a supervisor of their own, so they
die with the node and with its lease. A process is replaced after a number of runs, when it has
grown, and when a run has left processes behind.
"""

from __future__ import annotations

import logging
import os
import selectors
import sys
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_error
from pgcron_ha.executors.contract.outcome import Failed
from pgcron_ha.executors.process.conversation import BadMessage
from pgcron_ha.executors.process.loop import ProcessLoop
from pgcron_ha.executors.process.output import Watched
from pgcron_ha.executors.python.child_messages import Heard
from pgcron_ha.executors.python.child_process import ChildProcess, State
from pgcron_ha.executors.python.handler import PythonHandler
from pgcron_ha.executors.python.isolation import Isolation

MOST_STARTING: Final = 4
"""Processes that import at the same time; more would only slow each other down."""

IDLE_SECONDS: Final = 60.0
"""So long an idle process is kept warm."""

MOST_KEPT_WARM: Final = 4
"""Of those beyond, what a burst needed, the longest idle leave after `SURPLUS_SECONDS`."""

SURPLUS_SECONDS: Final = 5.0
START_SECONDS: Final = 60.0
"""For the interpreter and the imports of the Apps."""

LEAVE_SECONDS: Final = 5.0
"""For the exit handlers of a process that is not needed any more."""

_SILENT_SECONDS: Final = 0.5  # between the end of its socket and the news of its death
_LOOK_SECONDS: Final = 0.2  # between two looks at what time says of each child
_TICK: Final = 1.0
_MAX_LAST_MESSAGES: Final = 64
_MARK: Final = "PGCRON_CHILD"
"""The variable by which a child's orphans are known as its own."""


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """How a child is started. ``code`` is Python that serves on descriptor 3, ``opening`` its
    first message.
    """

    code: str
    opening: Mapping[str, Any]


def isolations_of(
    handlers: Mapping[str, PythonHandler], program: ChildProgram | None
) -> dict[str, Isolation]:
    """Those of the isolated handlers, by full name. Raises `ConfigError` if there are some and no
    ``program`` for a child.
    """
    every = {name: handler.isolation for name, handler in handlers.items()}
    isolated = {name: each for name, each in every.items() if each is not None}
    if isolated and program is None:
        raise ConfigError(
            f"the isolated handler {min(isolated)!r} can't have a process of its own",
            "A fresh process finds handlers by the name of their App.",
            "Start the node with --app module:attribute.",
        )
    return isolated


class ChildPool(ProcessLoop[ChildProcess]):
    """At most as many processes as there are slots. ``isolations`` are those of the handlers by
    full name.

    ``done`` is called once for each context given to `start`, from the pool's thread, when its run
    has really ended.
    """

    def __init__(
        self,
        program: ChildProgram,
        isolations: Mapping[str, Isolation],
        executor_services: ExecutorServices,
    ) -> None:
        super().__init__("pgcron-children", executor_services)
        self._program = program
        self._isolations = isolations
        self._limit = executor_services.slots
        self._queue: deque[Context] = deque()
        self._idle: list[ChildProcess] = []
        self._looked_at = 0.0
        self._thread.start()

    def _serve(self) -> None:
        self._spawn()  # one gets warm before the first run needs it
        super()._serve()

    def _pause(self) -> float | None:
        pause = super()._pause()
        return _TICK if pause is None and self._processes else pause

    # Requests.

    def _begin(self, context: Context) -> None:
        self._queue.append(context)

    def _waiting(self) -> Sequence[Context]:
        return list(self._queue)

    def _give_up(self, context: Context) -> None:
        if context in self._queue:
            self._queue.remove(context)
            self._refuse(context)

    def _stop(self, process: ChildProcess) -> None:
        assert process.context is not None  # of a busy one
        process.ask_to_stop(process.context.stop_reason or StopReason.CANCELLED)

    def _assign(self) -> None:
        """Give warm processes to waiting runs; start new ones for the others."""
        self._look_at_the_clock()
        while self._queue and (self._is_closing or self._queue[0].stop_reason is not None):
            self._refuse(self._queue.popleft())
        while self._queue and self._idle:
            context = self._queue.popleft()
            child = self._idle[-1]
            try:
                child.begin(context, self._isolations[context.handler], self._lease.deadline)
            except Exception as error:  # nothing of one run ends this thread
                self._finish(context, outcome_of_error(error, context))
                continue
            self._idle.pop()
            if context.outlives_lease:
                self._supervisor.spare(child.number, True)
        states = [child.state for child in self._processes.values()]
        starting = states.count(State.STARTING)
        room = self._limit - len(states) + states.count(State.LEAVING)
        for _ in range(min(len(self._queue) - starting, MOST_STARTING - starting, room)):
            self._spawn()

    # Processes.

    def _spawn(self) -> None:
        self._last_number += 1
        child = ChildProcess(self._last_number)
        descriptors: tuple[int, ...] = ()
        try:
            descriptors = child.open()
            self._supervisor.start(
                child.number,
                descriptors,
                mark=_MARK,
                argv=[sys.executable, "-c", self._program.code],
                environment={**_environment(), _MARK: uuid.uuid4().hex},
                directory=None,
                account=None,
                timeout=None,
                grace=LEAVE_SECONDS,
                outlives_lease=False,
            )
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            child.close()
            if self._queue:
                message = bounded_text(f"no process for the handler could be started: {error}")
                self._finish(self._queue.popleft(), Failed("CouldNotStart", message))
            return
        self._processes[child.number] = child
        level = logging.getLogger().level
        child.say({"do": "open", "log_level": level, **self._program.opening})
        for watched in child.watched():
            self._watch.add(watched)

    def _kill(self, process: ChildProcess, fault: str | None = None) -> None:
        process.fault = process.fault or fault
        if process in self._idle:
            self._idle.remove(process)
        if process.context is None and process.state is State.IDLE:
            process.state = State.LEAVING
        super()._kill(process)

    def _leave(self, child: ChildProcess) -> None:
        """Let it run its exit handlers."""
        if child in self._idle:
            self._idle.remove(child)
        child.state, child.since = State.LEAVING, time.monotonic()
        child.end_conversation()

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        for child in list(self._processes.values()):
            age = now - child.since
            silent = 0.0 if child.silent_since is None else now - child.silent_since
            if child.state is State.LEAVING:
                if age > LEAVE_SECONDS:
                    self._kill(child)
            elif silent > _SILENT_SECONDS:
                self._kill(child, "it closed the connection to its node")
            elif child.state is State.STARTING and age > START_SECONDS:
                self._kill(child, f"it was not ready within {START_SECONDS:g} s")
        for place, child in enumerate(reversed(list(self._idle))):
            longest = IDLE_SECONDS if place < MOST_KEPT_WARM else SURPLUS_SECONDS
            if now - child.since > longest:
                self._leave(child)

    # What they say.

    def _attend(self, watched: Watched, events: int) -> None:
        if not isinstance(watched, ChildProcess):
            super()._attend(watched, events)
            return
        if events & selectors.EVENT_WRITE:
            watched.flush()
        if events & selectors.EVENT_READ:
            self._converse(watched)
            self._watch.pause_a_flood(watched)

    def _converse(self, child: ChildProcess) -> bool:
        """Whether there may be more to hear."""
        try:
            messages = child.receive()
        except (BadMessage, RecursionError) as bad:
            self._watch.remove(child)
            self._kill(child, f"it sent what a child does not say: {bad}")
            return False
        if messages is None:
            self._watch.remove(child)
            child.silent_since = time.monotonic()
            if child in self._idle:
                self._idle.remove(child)
            return False
        for message in messages:
            self._hear(child, message)
        return bool(messages)

    def _hear(self, child: ChildProcess, message: Heard) -> None:
        if message.event == "ready":
            child.note_ready(message)
            self._rest(child)
        elif message.event == "failed":
            child.fault = message.text
        elif child.is_of_now(message):
            assert child.context is not None  # of a busy one
            if message.event == "begun":
                child.has_begun = True
                child.context.started_monotonic = time.monotonic()
            elif message.event == "ended":
                self._end_run(child, child.context, message)
            else:
                message.pass_on(child.context)

    def _end_run(self, child: ChildProcess, context: Context, message: Heard) -> None:
        child.read_rest()
        log = context._open_log() if message.dropped else None
        if log is not None:
            log.add_dropped(message.dropped)
        outcome = child.outcome(message)
        if message.left > 0:
            # Only when they, too, are gone is the run over.
            context.log(f"{message.left} processes that the handler left behind are killed")
            child.pending = outcome
            self._kill(child)
            return
        child.context = None
        if context.outlives_lease:
            self._supervisor.spare(child.number, False)
        if child.is_spent(message) or self._is_closing:
            self._leave(child)
        else:
            self._rest(child)
        self._finish(context, outcome)

    def _rest(self, child: ChildProcess) -> None:
        child.state, child.since = State.IDLE, time.monotonic()
        self._idle.append(child)

    # The supervisor.

    def _lease_was_sent(self) -> None:
        for child in self._processes.values():
            if child.state is State.BUSY and not child.outlives_lease:
                child.say({"do": "lease", "deadline": self._lease.deadline})

    def _flush(self) -> None:
        for child in self._processes.values():
            self._watch.want_to_write(child, child.is_writing)
        super()._flush()

    def _lose_supervisor(self) -> None:
        super()._lose_supervisor()
        self._idle.clear()

    def _bury(self, process: ChildProcess, ended: dict[str, Any] | None) -> None:
        for _ in range(_MAX_LAST_MESSAGES):  # what it said before it died
            if process.silent_since is not None or not self._converse(process):
                break
        if process in self._idle:
            self._idle.remove(process)
        self._forget(process)
        context, process.context = process.context, None
        if context is not None and process.can_be_replaced(context):
            self._queue.appendleft(context)
        elif context is not None:
            outcome = process.pending or process.outcome_of_death(context, ended)
            self._finish(context, outcome)
        elif process.state is State.STARTING and self._queue:
            self._finish(self._queue.popleft(), process.why_it_did_not_start(ended))
        self._note_nothing_left()


def _environment() -> dict[str, str]:
    """The node's, without its settings: its passwords are no affair of a handler's process."""
    return {name: each for name, each in os.environ.items() if not name.startswith("PGCRON_HA_")}
