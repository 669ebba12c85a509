"""Executes isolated ``py:`` handlers in warm child processes, each one run at a time.

They are fresh interpreters that import the Apps by their names, not copies of a process with
threads. A run that finds one waiting costs a fraction of a millisecond; one that does not waits for
an interpreter and the imports of the Apps. They are started by a supervisor of their own, so they
die with the node and with its lease. A process is replaced after a number of runs, when it has
grown, and when a run has left processes behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pgcron_ha.config.key_ring import key_variables
from pgcron_ha.db.driver.passwords import password_in_use
from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.base import Context, ExecutorServices, Failed, Outcome, StopReason
from pgcron_ha.executors.contract.secret_values import sealed
from pgcron_ha.executors.process.supervision import ProcessExecutor
from pgcron_ha.executors.python.child_process import ChildProcess
from pgcron_ha.executors.python.handler import Isolation, PythonHandler

MOST_STARTING: Final = 4
"""Processes that import at the same time; more would only slow each other down."""

IDLE_SECONDS: Final = 60.0
"""How long an idle process is kept warm."""


START_SECONDS: Final = 60.0
"""For the interpreter and the imports of the Apps."""

LEAVE_SECONDS: Final = 5.0
"""For the exit handlers of a process that is not needed any more."""

_SILENT_SECONDS: Final = 0.5  # between the end of its socket and the news of its death
_MARK: Final = "PGCRON_CHILD"
"""The variable by which a child's orphans are known as its own."""

# What a message raises that is none, or has other members than it should.
_UNREADABLE: Final = (
    LookupError, TypeError, ValueError, ArithmeticError, RecursionError, InvalidInput,
)  # fmt: skip
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """How a child is started. ``code`` is Python that serves on descriptor 3, ``opening`` its
    first message.
    """

    code: str
    opening: Mapping[str, Any]


class ChildPool(ProcessExecutor):
    """An `Executor` for isolated handlers, by full name. There are at most as many processes as
    slots. Raises `ConfigError` without a ``program`` for them.
    """

    _processes: dict[int, ChildProcess]

    def __init__(
        self,
        handlers: Mapping[str, PythonHandler],
        program: ChildProgram | None,
        executor_services: ExecutorServices,
    ) -> None:
        if program is None:
            raise ConfigError(
                f"the isolated handler {min(handlers)!r} can't have a process of its own",
                "A fresh process finds handlers by the name of their App.",
                "Start the node with --app module:attribute.",
            )
        self._program = program
        self._offered = handlers
        self._limit = executor_services.slots
        self._waiting = 0
        self._failures: list[Outcome] = []
        self._changed = asyncio.Event()
        super().__init__("py", handlers, executor_services)
        self._post(self._spawn)  # one gets warm before the first run needs it

    async def execute(self, context: Context) -> Outcome:
        """In a process that waits for a run, as soon as there is one."""
        context.started_monotonic = None  # until the process begins it
        handler = self._offered[context.handler]
        if (refused := handler.open_args(context)) is not None:
            return refused
        outcome = None
        while outcome is None:
            child = await self._free_child()
            if not isinstance(child, ChildProcess):
                return child
            outcome = await self._execute_in(child, context)
        return sealed(outcome, context.handler) if handler.returns_secret else outcome

    def _ask_to_stop(self, context: Context, process: ChildProcess) -> None:
        """Its process passes the request on."""
        process.ask_to_stop(context.stop_reason or StopReason.CANCELLED)

    async def _free_child(self) -> ChildProcess | Outcome:
        """An idle one; or the outcome of a run for which none can be started."""
        self._waiting += 1
        try:
            while not (idle := [each for each in self._processes.values() if each.is_idle]):
                if self._failures:
                    return self._failures.pop()
                self._changed.clear()
                self._spawn_for_those_who_wait()
                await self._changed.wait()
        finally:
            self._waiting -= 1
        return idle[-1]

    async def _execute_in(self, child: ChildProcess, context: Context) -> Outcome | None:
        """None if the process had died before it saw the run."""
        isolation = self._offered[context.handler].isolation or Isolation()
        child.begin(context, isolation, self._services.deadline)
        if context.outlives_lease:
            self._say("spare", child.number, outlives_lease=True)
        context._work = child
        try:
            ends: set[asyncio.Future[Any]] = {child.over, child.ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not child.over.done():
                if child.can_be_replaced(context):
                    return None
                return child.outcome_of_death(context, child.ended.result())
            if child.left > 0:
                context.log(f"{child.left} processes that the handler left behind are killed")
                self._kill_process(child)
            if child.state == "leaving":
                await child.ended  # only when what it left behind is gone, too, the run is over
        finally:
            context._work = self
        if child.state == "busy" and not child.ended.done():
            if context.outlives_lease:
                self._say("spare", child.number, outlives_lease=False)
            if child.is_fit() and not self._closing:
                self._rest(child)
            else:
                self._leave(child)
        return child.over.result()

    # Processes.

    def _spawn_for_those_who_wait(self) -> None:
        states = [child.state for child in self._processes.values()]
        starting = states.count("starting")
        room = self._limit - len(states) + states.count("leaving")
        for _ in range(min(self._waiting - starting, MOST_STARTING - starting, room)):
            self._spawn()

    def _spawn(self) -> None:
        child = ChildProcess(self._rest, self._lose_child)
        try:
            self._start_process(
                child,
                mark=_MARK,
                argv=[sys.executable, "-c", self._program.code],
                environment={**_environment(), _MARK: uuid.uuid4().hex},
                account=None,
            )
        except OSError as error:
            message = f"no process for the handler could be started: {error}"
            self._refuse_one(Failed("CouldNotStart", message))
            return
        fault = f"it was not ready within {START_SECONDS:g} s"
        child.change("starting", START_SECONDS, partial(self._kill_process, fault=fault))
        child.ended.add_done_callback(lambda ended: self._remove(child, ended.result()))
        level = logging.getLogger().level
        child.conversation.send({"do": "open", "log_level": level, **self._program.opening})

    def _rest(self, child: ChildProcess) -> None:
        """It waits for its next run."""
        child.change("idle", IDLE_SECONDS, self._leave)
        self._failures.clear()  # processes can be started
        self._changed.set()

    def _leave(self, child: ChildProcess) -> None:
        """Let it run its exit handlers."""
        child.change("leaving", LEAVE_SECONDS, self._kill_process)
        child.conversation.hang_up()

    def _kill_process(self, child: ChildProcess, fault: str | None = None) -> None:
        child.fault = child.fault or fault
        if child.state != "starting":
            child.change("leaving")
        super()._kill_process(child)

    def _lose_child(self, child: ChildProcess, problem: Exception | None) -> None:
        """It says no more: it has ended, its handler has closed the connection, or it is mad."""
        if problem is not None:
            if not isinstance(problem, _UNREADABLE):
                _log.error("the node failed at what a child said", exc_info=problem)
            said = f"{type(problem).__name__}: {problem}"
            self._kill_process(child, f"it sent what a child does not say: {said}")
        elif child.state != "leaving":
            fault = "it closed the connection to its node"
            child.change(child.state, _SILENT_SECONDS, partial(self._kill_process, fault=fault))

    def _remove(self, child: ChildProcess, ended: dict[str, Any] | None) -> None:
        if child.state == "starting":
            self._refuse_one(child.why_it_did_not_start(ended))
        self._changed.set()

    def _refuse_one(self, outcome: Outcome) -> None:
        """One of the runs that wait gets no process."""
        if len(self._failures) < self._waiting:
            self._failures.append(outcome)
            self._changed.set()

    def _pass_lease_on(self) -> None:
        super()._pass_lease_on()
        for context in self._live:
            if isinstance(context._work, ChildProcess) and not context.outlives_lease:
                lease = {"do": "lease", "deadline": self._services.deadline}
                context._work.conversation.send(lease)


def _environment() -> dict[str, str]:
    """The node's, without its settings, but with the variable that `password_from` names."""
    keys = key_variables()
    changing = password_in_use()
    password = None if changing is None else changing.reference.place
    return {
        name: each
        for name, each in os.environ.items()
        if (not name.startswith("PGCRON_HA_") or name == password) and name not in keys
    }
