"""The child's side of process isolation: one run at a time, by the executor that a node has, too.

The main thread listens to the node; handlers run where they do in a node, in a loop's thread or
one of their own. So everything about a handler is the same in both places, but its death.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pgcron_ha import operating_system
from pgcron_ha.db.driver.link import Link
from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.base import Context, ExecutorServices, Outcome, StopReason, Stream
from pgcron_ha.executors.contract.masking import leave_secrets_to_the_node
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.executors.process.conversation import message_bytes
from pgcron_ha.executors.python.child_process import context_from, outcome_members
from pgcron_ha.executors.python.executor import PythonExecutor
from pgcron_ha.executors.python.handler import PythonHandler

CONTROL_DESCRIPTOR = 3
"""Where a child finds its end of the socket."""

_END_SECONDS = 1.0
_REPORT_SECONDS = 0.2

Offer = Callable[[dict[str, Any]], Mapping[str, PythonHandler]]
"""From the message ``open`` to the handlers, by full name."""


def serve(offer: Offer) -> None:
    """Execute what the node on `CONTROL_DESCRIPTOR` sends until it closes the connection."""
    connection = socket.socket(fileno=CONTROL_DESCRIPTOR)
    connection.set_inheritable(False)  # it must end with this process
    leave_secrets_to_the_node()
    operating_system.set_child_subreaper()  # what a handler leaves behind becomes our child
    operating_system.set_limit(resource.RLIMIT_CORE, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    Child(connection, offer).serve()


class Child:
    """Messages from the node, and the answers to it."""

    def __init__(self, connection: socket.socket, offer: Offer) -> None:
        self._connection = connection
        self._offer = offer
        self._sending = threading.Lock()
        self._number = 0
        self._context: Context | None = None
        self._executor: PythonExecutor | None = None
        self._next_report = self._next_beat = 0.0

    def serve(self) -> None:
        """Until the node closes the connection; nothing is left then."""
        for message in self._received():
            self._obey(message)
        if self._executor is not None:
            asyncio.run(self._executor.close(_END_SECONDS))

    def _received(self) -> Iterator[dict[str, Any]]:
        # A handler closed it, or the node died within a message.
        with contextlib.suppress(OSError, json.JSONDecodeError):
            yield from map(json.loads, self._connection.makefile("rb"))

    def _obey(self, message: dict[str, Any]) -> None:
        what, executor = message["do"], self._executor
        if executor is None:  # "open" is the first
            self._open(message)
        elif what == "lease":
            executor.renew_lease(message["deadline"])
        elif what == "run":
            self._run(executor, message)
        elif what == "stop" and message["run"] == self._number and self._context is not None:
            executor.stop(self._context, StopReason(message["reason"]))

    def _open(self, message: dict[str, Any]) -> None:
        logging.getLogger().setLevel(message["log_level"])
        try:
            handlers = self._offer(message)
        except BaseException as error:
            self._say("failed", message=f"{type(error).__name__}: {error}"[:4096])
            raise
        # For the run before, which a handler may ask for; it connects when one does.
        link = Link(message["dsn"], message["schema"], title="pgcron_ha handler")
        services = ExecutorServices(self._done, lambda: None, self, 1)
        self._executor = PythonExecutor(handlers, services, link)
        self._say("ready", resident=operating_system.resident_bytes())

    def _run(self, executor: PythonExecutor, message: dict[str, Any]) -> None:
        self._number, self._context = message["run"], context_from(message["context"])
        self._next_report = self._next_beat = 0.0
        executor.renew_lease(message["lease"])
        set_limits(message["memory"], message["cpu"])
        self._say("begun")
        executor.start([self._context])

    def _done(self, context: Context, outcome: Outcome) -> None:
        set_limits(None, None)
        dropped = 0 if context._log is None else context._log.dropped
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a handler closed it
                stream.flush()
        self._say(
            "ended",
            outcome=outcome_members(outcome),
            dropped=dropped,
            declared=context._declared or {},
            resident=operating_system.resident_bytes(),
            left=len(operating_system.living_children()),
        )

    def write(self, context: Attempt, stream: Stream, line: str) -> None:
        """A line of the run's log: the child is the sink of its executor."""
        if context._log is not None and context._log.is_finished:
            return  # how many were dropped: the node reports that for all it got
        self._say("line", stream=stream, line=line)

    def progress(self, context: Attempt, progress: Progress) -> None:
        """How far the run is: a few times a second, and always the last step."""
        now = time.monotonic()
        if now < self._next_report and progress.done != progress.total:
            return
        self._next_report = now + _REPORT_SECONDS
        self._say("progress", **progress._asdict())

    def beat(self, context: Attempt) -> None:
        """That the run is alive: a few times a second at most."""
        now = time.monotonic()
        if now >= self._next_beat and context is self._context:
            self._next_beat = now + _REPORT_SECONDS
            self._say("beat")

    def _say(self, event: str, **facts: Any) -> None:
        message = message_bytes({"event": event, "run": self._number, **facts})
        # Blocks while the node is busy with others' floods; that is what a flood deserves.
        with self._sending:
            try:
                self._connection.sendall(message)
            except OSError as error:  # a handler closed it, or the node is gone
                os.write(2, f"nothing can be sent to the node any more: {error}\n".encode())
                os._exit(1)


def set_limits(memory: int | None, cpu: float | None) -> None:
    """Soft limits for one run; the hard ones stay, so that the next run may have others.

    Of memory what the process allocates is counted, not what it maps of files. Beyond it
    allocation fails (MemoryError); beyond ``cpu`` seconds from now SIGXCPU ends the process.
    """
    operating_system.set_limit(resource.RLIMIT_DATA, memory)
    until = None if cpu is None else math.ceil(time.process_time() + cpu)
    operating_system.set_limit(resource.RLIMIT_CPU, until)
