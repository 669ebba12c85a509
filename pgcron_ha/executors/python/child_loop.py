"""The thread of `ChildPool`: which process executes what, its output, its messages, its end."""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Literal

from pgcron_ha.executors.contract.attempt import Lease, StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_error
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome, stopped_early
from pgcron_ha.executors.contract.previous import Source
from pgcron_ha.executors.process.flood_watch import FLOOD_SECONDS
from pgcron_ha.executors.process.run import OutputPipe
from pgcron_ha.executors.process.waker import Waker
from pgcron_ha.executors.python.child_messages import BadMessage, Heard
from pgcron_ha.executors.python.child_previous import AnswersChildren
from pgcron_ha.executors.python.child_process import ChildProcess, State
from pgcron_ha.executors.python.child_supervisor import ChildSupervisor
from pgcron_ha.executors.python.child_watch import ChildWatch, files_of
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
_ORPHAN_SECONDS: Final = 0.05  # between two looks at groups whose supervisor died
_MAX_LAST_MESSAGES: Final = 64

RunOptions = Literal["start", "stop", "kill", "kill all", "end"]


class ChildLoop:
    """Everything but `report` and `renew_lease` belongs to the thread that calls `serve`."""

    def __init__(
        self,
        code: str,
        opening: Mapping[str, Any],
        inherit: Sequence[int],
        isolations: Mapping[str, Isolation],
        done: Callable[[Context, Outcome], None],
        limit: int,
        previous: Source = None,
    ) -> None:
        self.nothing_left: Future[None] = Future()
        self._code = code
        self._opening = opening
        self._isolations = isolations
        self._done = done
        self._limit = limit
        self._lease = Lease()
        self._requests: deque[tuple[RunOptions, Context | None]] = deque()
        self._waiting: deque[Context] = deque()
        self._children: dict[int, ChildProcess] = {}
        self._idle: list[ChildProcess] = []
        self._orphans: list[ChildProcess] = []
        self._last_number = 0
        self._thread = 0
        self._looked_at = 0.0
        self._is_closing = False
        self._is_serving = True
        self._watch = ChildWatch()
        self._waker = Waker(self._watch.selector)
        self._supervisor = ChildSupervisor(self._watch.selector, inherit)
        self._previous = AnswersChildren(previous, self._waker.wake)

    def report(self, what: RunOptions, context: Context | None = None) -> None:
        """Thread-safe and without waiting: what the thread shall do next."""
        self._requests.append((what, context))
        if threading.get_ident() != self._thread:  # else it looks at them before it waits
            self._waker.wake()

    def renew_lease(self, deadline: float) -> None:
        """Thread-safe and without waiting: only the last deadline counts."""
        self._lease.deadline = deadline
        self._waker.wake()

    def serve(self) -> None:
        """Work until told to end. One process gets warm before the first run needs it."""
        self._thread = threading.get_ident()
        self._spawn()
        while self._is_serving:
            self._flush()
            has_supervisor_said = False
            for watched, events in self._watch.ready(self._pause()):
                if isinstance(watched, ChildProcess):
                    self._attend(watched, events)
                elif isinstance(watched, OutputPipe):
                    self._read(watched)
                elif watched is self._supervisor:
                    has_supervisor_said = True
                else:
                    self._waker.drain()
            if has_supervisor_said:  # after the output: the end of a process closes its pipes
                self._listen()
            self._watch.resume()
            self._send_lease()
            while self._requests:
                self._obey(*self._requests.popleft())
            for child, answer in self._previous.answers():
                child.say(answer)
            self._look_at_the_clock()
            self._end_orphans()
            self._assign()
        self._close()

    def _pause(self) -> float | None:
        if self._orphans:
            return _ORPHAN_SECONDS
        if self._watch.has_paused:
            return FLOOD_SECONDS
        return _TICK if self._children else None

    # Requests.

    def _obey(self, what: RunOptions, context: Context | None) -> None:
        if context is not None:
            self._obey_about(what, context)
        elif what == "kill all":
            self._is_closing = True
            for child in self._children.values():
                if child.context is not None:
                    child.context.stop_reason = child.context.stop_reason or StopReason.SHUTDOWN
                self._kill(child)
            while self._waiting:
                self._refuse(self._waiting.popleft())
            self._note_nothing_left()
        else:
            self._is_serving = False

    def _obey_about(self, what: RunOptions, context: Context) -> None:
        child = context._work
        if what == "start":
            self._waiting.append(context)
        elif context in self._waiting:
            self._waiting.remove(context)
            self._refuse(context)
        elif isinstance(child, ChildProcess) and child.context is context:
            reason = context.stop_reason = context.stop_reason or StopReason.CANCELLED
            if what == "kill":
                self._kill(child)
            else:
                child.ask_to_stop(reason)

    def _assign(self) -> None:
        """Warm processes to those who wait; new ones for the others."""
        while self._waiting and (self._is_closing or self._waiting[0].stop_reason is not None):
            self._refuse(self._waiting.popleft())
        while self._waiting and self._idle:
            context = self._waiting.popleft()
            child = self._idle[-1]
            try:
                child.begin(context, self._isolations[context.handler], self._lease.deadline)
            except Exception as error:  # nothing of one run ends this thread
                self._finish(context, outcome_of_error(error, context))
                continue
            self._idle.pop()
            if context.outlives_lease:
                self._supervisor.spare(child.number, True)
        states = [child.state for child in self._children.values()]
        starting = states.count(State.STARTING)
        room = self._limit - len(states) + states.count(State.LEAVING)
        for _ in range(min(len(self._waiting) - starting, MOST_STARTING - starting, room)):
            self._spawn()

    def _refuse(self, context: Context) -> None:
        context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
        self._finish(context, stopped_early(context.stop_reason))

    def _finish(self, context: Context, outcome: Outcome) -> None:
        context._work = None
        self._done(context, outcome)

    # Processes.

    def _spawn(self) -> None:
        self._last_number += 1
        child = ChildProcess(self._last_number)
        descriptors: tuple[int, ...] = ()
        try:
            descriptors = child.open()
            self._supervisor.start(child.number, self._code, descriptors, LEAVE_SECONDS)
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            child.close()
            if self._waiting:
                message = bounded_text(f"no process for the handler could be started: {error}")
                self._finish(self._waiting.popleft(), Failed("CouldNotStart", message))
            return
        self._children[child.number] = child
        level = logging.getLogger().level
        child.say({"do": "open", "log_level": level, **self._opening})
        for watched in files_of(child):
            self._watch.add(watched)

    def _kill(self, child: ChildProcess, fault: str | None = None) -> None:
        child.fault = child.fault or fault
        if child in self._idle:
            self._idle.remove(child)
        if child.context is None and child.state is State.IDLE:
            child.state = State.LEAVING
        self._supervisor.kill(child.number)

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
        for child in list(self._children.values()):
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

    def _read(self, pipe: OutputPipe) -> None:
        if pipe.read() == 0:
            self._watch.remove(pipe)
        self._watch.pause_a_flood(pipe)

    def _attend(self, child: ChildProcess, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            child.flush()
        if events & selectors.EVENT_READ:
            self._converse(child)
            self._watch.pause_a_flood(child)

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
            elif message.event == "previous":
                self._previous.ask(child, child.context.run_id, message.run)
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

    def _send_lease(self) -> None:
        if self._supervisor.renew_lease(self._lease.deadline):
            for child in self._children.values():
                if child.state is State.BUSY and not child.outlives_lease:
                    child.say({"do": "lease", "deadline": self._lease.deadline})

    def _flush(self) -> None:
        for child in self._children.values():
            self._watch.want_to_write(child)
        self._supervisor.flush()

    def _listen(self) -> None:
        messages = self._supervisor.receive()
        if messages is None:
            self._orphans = list(self._children.values())
            self._idle.clear()
        for message in messages or ():
            child = self._children[message["run"]]
            if message["event"] == "started":
                child.pid = message["pid"]
            else:
                self._bury(child, message)

    def _end_orphans(self) -> None:
        for child in [each for each in self._orphans if each.group_is_gone()]:
            self._orphans.remove(child)
            self._bury(child, None)

    # Ends.

    def _bury(self, child: ChildProcess, ended: dict[str, Any] | None) -> None:
        """It is gone, and all that stemmed from it. ``ended`` None: with its supervisor."""
        for _ in range(_MAX_LAST_MESSAGES):  # what it said before it died
            if child.silent_since is not None or not self._converse(child):
                break
        del self._children[child.number]
        if child in self._idle:
            self._idle.remove(child)
        for watched in files_of(child):
            self._watch.remove(watched)
        child.close()
        context = child.context
        if context is not None and child.can_be_replaced(context):
            self._waiting.appendleft(context)
        elif context is not None:
            child.context = None
            self._finish(context, child.pending or child.outcome_of_death(context, ended))
        elif child.state is State.STARTING and self._waiting:
            self._finish(self._waiting.popleft(), child.why_it_did_not_start(ended))
        self._note_nothing_left()

    def _note_nothing_left(self) -> None:
        if self._is_closing and not self._children and not self.nothing_left.done():
            self.nothing_left.set_result(None)

    def _close(self) -> None:
        gone = self._supervisor.close()
        for child in list(self._children.values()):
            for watched in files_of(child):
                self._watch.remove(watched)
            child.close()
            if gone and child.context is not None:
                reason = child.context.stop_reason or StopReason.SHUTDOWN
                self._finish(child.context, Interrupted(reason, "killed at the end of the node"))
        while self._waiting:
            self._refuse(self._waiting.popleft())
        self._watch.selector.close()
        self._waker.close()
