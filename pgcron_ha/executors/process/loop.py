"""The thread of `ShellExecutor`: output of runs, supervisor's messages, node's requests."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.attempt import Lease, LogSink, StopReason
from pgcron_ha.executors.contract.base import Done, Feed
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_error, refused
from pgcron_ha.executors.contract.outcome import Failed, Interrupted, Outcome, stopped_early
from pgcron_ha.executors.process.command import (
    Account,
    render_argv,
    run_environment,
    write_json_file,
)
from pgcron_ha.executors.process.flood_watch import FLOOD_SECONDS, FloodWatch
from pgcron_ha.executors.process.previous import PreviousDesk
from pgcron_ha.executors.process.run import OutputPipe, ShellRun
from pgcron_ha.executors.process.supervisor_client import SupervisorClient
from pgcron_ha.executors.process.waker import Waker

Request: TypeAlias = tuple[
    Literal["start", "reported", "stop", "kill", "close", "kill all", "end"], Sequence[Context]
]

_ORPHAN_SECONDS = 0.05  # between two looks at groups whose supervisor died


class ShellLoop:
    """Everything but `report` and `renew_lease` belongs to the thread that calls `serve`."""

    def __init__(
        self,
        offered: Mapping[str, tuple[ShellTemplate, Account | None]],
        done: Done,
        feed: Feed,
        sink: LogSink,
        inherit: tuple[int, ...],
        directory: Path,
        environment: Mapping[str, str],
        previous: PreviousDesk | None = None,
    ) -> None:
        self.nothing_left: Future[None] = Future()
        self._offered = offered
        self._done = done
        self._feed = feed
        self._sink = sink
        self._inherit = inherit
        self._directory = directory
        self._environment = environment
        self._previous = previous
        self._lease = Lease()
        self._lease_sent = math.inf
        self._requests: deque[Request] = deque()
        self._runs: dict[int, ShellRun] = {}
        self._orphans: list[ShellRun] = []
        self._last_number = 0
        self._closing = False
        self._serving = True
        self._watch: FloodWatch[OutputPipe] = FloodWatch()
        self._selector = self._watch.selector
        self._waker = Waker(self._selector)
        self._supervisor: SupervisorClient | None = None
        self._open_supervisor()

    def report(self, request: Request) -> None:
        """Thread-safe and without waiting: what the thread shall do next."""
        self._requests.append(request)
        self._waker.wake()

    def renew_lease(self, deadline: float) -> None:
        """Thread-safe and without waiting: only the last deadline counts."""
        self._lease.deadline = deadline
        self._waker.wake()

    def refuse_waiting(self) -> None:
        """Thread-safe, once `serve` has ended: what came too late is not begun."""
        while self._requests:
            with contextlib.suppress(IndexError):  # another thread was quicker
                what, contexts = self._requests.popleft()
                if what == "start":
                    for context in contexts:
                        context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
                        self._done(context, stopped_early(context.stop_reason))

    def serve(self) -> None:
        """Work until told to end."""
        while self._serving:
            for key, _ in self._selector.select(self._pause()):
                if isinstance(key.data, OutputPipe):
                    self._read(key.data)
            # After the output: the end of a run closes its pipes.
            self._waker.drain()
            self._listen()
            self._watch.resume()
            self._send_lease()
            while self._requests:
                self._obey(*self._requests.popleft())
            self._end_orphans()
            self._flush()
        self._close()

    def break_off(self) -> None:
        """After an error of `serve`: its programs are killed, their runs have no outcome."""
        if self._supervisor is not None:
            self._supervisor.close()
        for run in self._runs.values():
            for pipe in run.pipes:
                os.close(pipe.descriptor)
        self._selector.close()
        self._waker.close()

    def _pause(self) -> float | None:
        if self._orphans:
            return _ORPHAN_SECONDS
        return FLOOD_SECONDS if self._watch.has_paused else None

    # Requests.

    def _obey(self, what: str, contexts: Sequence[Context]) -> None:
        for context in contexts:
            run: ShellRun | None = context._work
            if what == "start":
                self._start_chain(context)
            elif what == "reported":
                self._start_reported(context)
            elif self._previous is not None and run is None:
                self._previous.stop(context)
            elif run is not None and run.number in self._runs:
                self._send({"do": what, "run": run.number})
        if what in ("close", "kill all") and self._previous is not None:
            for context in self._previous.waiting:
                context.stop_reason = context.stop_reason or StopReason.SHUTDOWN
                self._previous.stop(context)
        if what == "close":
            self._closing = True
            for run in self._runs.values():
                run.context.stop_reason = run.context.stop_reason or StopReason.SHUTDOWN
                self._send({"do": "stop", "run": run.number})
        elif what == "kill all":
            for number in self._runs:
                self._send({"do": "kill", "run": number})
        elif what == "end":
            self._serving = False
        self._note_nothing_left()

    def _start_chain(self, context: Context | None) -> None:
        """Start it; when it is refused, the slot takes the next one."""
        while context is not None:
            refused = self._start(context)
            if refused is None:
                return
            self._done(context, refused)
            context = None if self._closing else self._feed()

    def _start_reported(self, context: Context) -> None:
        """The database has said how the run before it ended, or could not."""
        assert self._previous is not None  # it was asked
        refused = self._previous.take(context) or self._start(context, is_reported=True)
        if refused is not None:
            self._done(context, refused)
            self._start_chain(None if self._closing else self._feed())

    def _start(self, context: Context, is_reported: bool = False) -> Outcome | None:
        if self._closing and context.stop_reason is None:
            context.stop_reason = StopReason.SHUTDOWN
        if context.stop_reason is not None:
            return stopped_early(context.stop_reason)
        if context.handler not in self._offered:
            message = f"this node does not offer the handler {context.handler!r}"
            return Failed("NotFound", message)
        template, account = self._offered[context.handler]
        if template.previous and self._previous is not None and not is_reported:
            self._previous.ask(context, lambda: self.report(("reported", (context,))))
            return None
        self._last_number += 1
        run = ShellRun(self._last_number, context, template)
        context._sink, context._lease = self._sink, self._lease
        try:
            self._send_run(run, account)
        except PgcronError as error:
            return refused(error)
        except OSError as error:
            return Failed("CouldNotStart", bounded_text(str(error)))
        except Exception as error:  # such as RecursionError: nothing of one run ends this thread
            return outcome_of_error(error, context)
        context._work = run
        self._runs[run.number] = run
        for pipe in run.pipes:
            self._watch.add(pipe)
        return None

    def _send_run(self, run: ShellRun, account: Account | None) -> None:
        """Raises `InvalidInput` for args that don't fit, OSError when the system has no room."""
        context, template = run.context, run.template
        # The fence number names the claim, as its token does, and is no secret.
        args_file = self._directory / f"{context.run_id}-{context.fence}.json"
        previous_file = args_file.with_suffix(".previous.json") if template.previous else None
        environment = run_environment(
            template, context, args_file, previous_file, self._environment
        )
        limits = [each for each in (context.timeout, template.timeout) if each is not None]
        message = {
            "do": "run",
            "run": run.number,
            "descriptors": 2,
            "mark": "PGCRON_FENCE",
            "argv": render_argv(template, context),
            "environment": environment,
            "directory": template.working_directory,
            "account": account,
            "timeout": min(limits, default=None),
            "grace": template.grace,
            "outlives_lease": context.outlives_lease,
            "limits": dict(template.limits),
            "reads_args": template.stdin == "args",
        }
        if self._supervisor is None:
            self._open_supervisor()
        files: dict[Path, Any] = {args_file: context.args}
        if previous_file is not None:
            found = context._previous_found
            files[previous_file] = None if found is None else found.document()
        try:
            for path, value in files.items():
                write_json_file(path, value, account)
            descriptors = run.open_pipes(self._sink)
        except BaseException:
            for path in files:
                path.unlink(missing_ok=True)
            raise
        self._send(message, descriptors)

    # Output.

    def _read(self, pipe: OutputPipe) -> None:
        if pipe.read() == 0:
            self._watch.remove(pipe)
        self._watch.pause_a_flood(pipe)

    # The supervisor.

    def _open_supervisor(self) -> None:
        self._supervisor = SupervisorClient(self._inherit, self._directory)
        self._selector.register(self._supervisor.socket, selectors.EVENT_READ)
        self._lease_sent = math.inf

    def _send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        if self._supervisor is not None:
            self._supervisor.send(message, descriptors)

    def _send_lease(self) -> None:
        deadline = self._lease.deadline
        if deadline != self._lease_sent and self._supervisor is not None:
            self._lease_sent = deadline
            self._send({"do": "lease", "deadline": deadline})

    def _flush(self) -> None:
        if self._supervisor is None:
            return
        self._supervisor.flush()
        writing = selectors.EVENT_WRITE if self._supervisor.writing else 0
        self._selector.modify(self._supervisor.socket, selectors.EVENT_READ | writing)

    def _listen(self) -> None:
        if self._supervisor is None:
            return
        messages = self._supervisor.receive()
        if messages is None:
            self._lose_supervisor(self._supervisor)
            return
        for message in messages:
            run = self._runs[message["run"]]
            if message["event"] == "started":
                run.pid = message["pid"]
                run.context.started_monotonic = message["at"]
            else:
                self._close_output(run)
                self._finish(run, run.outcome(message))

    def _lose_supervisor(self, supervisor: SupervisorClient) -> None:
        """Somebody killed it. Its children die with it; the next start makes a new one."""
        self._selector.unregister(supervisor.socket)
        supervisor.close()
        self._supervisor = None
        self._orphans = list(self._runs.values())

    def _end_orphans(self) -> None:
        for run in [each for each in self._orphans if each.group_is_gone()]:
            self._orphans.remove(run)
            self._close_output(run)
            message = "the supervisor of this node's programs was killed, and the program with it"
            self._finish(run, Failed("SupervisorLost", message))

    # Ends.

    def _close_output(self, run: ShellRun) -> None:
        for pipe in run.pipes:
            self._watch.remove(pipe)
        run.close()

    def _finish(self, run: ShellRun, outcome: Outcome) -> None:
        del self._runs[run.number]
        run.context._work = None
        self._done(run.context, outcome)
        self._note_nothing_left()
        if not self._closing:
            self._start_chain(self._feed())

    def _note_nothing_left(self) -> None:
        is_asking = self._previous is not None and self._previous.waiting
        if self._closing and not self._runs and not is_asking and not self.nothing_left.done():
            self.nothing_left.set_result(None)

    def _close(self) -> None:
        gone = self._supervisor is None or self._supervisor.close()
        for run in list(self._runs.values()):
            self._close_output(run)
            if gone:
                reason = run.context.stop_reason or StopReason.SHUTDOWN
                self._finish(run, Interrupted(reason, "killed at the end of the node"))
        self.refuse_waiting()
        self._selector.close()
        self._waker.close()
