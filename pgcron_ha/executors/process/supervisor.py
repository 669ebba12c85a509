"""The process that starts a node's programs and children, and outlives the node by an instant.

A node that is killed or frozen can't end its children. This small process, with one thread and
few imports, does: it kills all of them when its socket ends (the node is dead) and when the node's
lease is over. It inherits the lock of the node's state directory, and so keeps it until the last
child is gone.

Messages are JSON, one a line. From the node: ``run`` (with its descriptors from stdout on),
``stop``, ``kill``, ``spare``, ``lease``. To the node: ``started``, ``ended``.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import sys
from collections import deque
from typing import Any

from pgcron_ha import operating_system
from pgcron_ha.executors.process.conversation import RECEIVE_BYTES, Incoming, message_bytes
from pgcron_ha.executors.process.supervised_run import SupervisedRun, spawn

_TICK = 1.0  # a suspended machine does not count in select(); look at the clock at least so often
_CLEARING_TICK = 0.05  # while something killed is not gone yet


def main() -> None:
    """``sys.argv``: the socket's descriptor, the node's process id, the directory of args files,
    the mark in the environment of what else dies with the node.
    """
    descriptor, node, directory, mark = sys.argv[1:]
    # A terminal's Ctrl-C is for the node, which then stops us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    operating_system.set_child_subreaper()
    supervisor = Supervisor(socket.socket(fileno=int(descriptor)), int(node))
    supervisor.serve_until_the_node_is_gone()
    supervisor.kill_all()
    if mark:
        operating_system.kill_processes_with(mark.encode())
    if directory:
        _remove(directory)


class Supervisor:
    """The runs of one node."""

    def __init__(self, node: socket.socket, node_process: int) -> None:
        self._node = node
        self._node_process = node_process
        self._node_gone = False
        self._runs: dict[int, SupervisedRun] = {}
        self._deadline = math.inf
        self._incoming = Incoming()
        self._descriptors: deque[int] = deque()
        self._outgoing = bytearray()
        self._selector = selectors.DefaultSelector()
        self._wake_up, writing = socket.socketpair()
        self._wake_up.setblocking(False)
        writing.setblocking(False)
        signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        # Also sent when only the node's starting thread ends; the parent's id then has not changed.
        operating_system.set_parent_death_signal(signal.SIGUSR1)
        node.setblocking(False)
        self._selector.register(self._wake_up, selectors.EVENT_READ)
        self._selector.register(node, selectors.EVENT_READ)

    def serve_until_the_node_is_gone(self) -> None:
        """Obey, report, and keep the lease."""
        while not self._node_gone:
            writing = selectors.EVENT_WRITE if self._outgoing else 0
            self._selector.modify(self._node, selectors.EVENT_READ | writing)
            self._wait(self._pause())
            self._receive()
            self._keep_lease()
            self._reap()
            self._clear_ended()
            self._flush()
            if os.getppid() != self._node_process:
                self._node_gone = True  # even if another process still holds the socket's other end

    def kill_all(self) -> None:
        """SIGKILL to every group and every descendant, until no child is left."""
        self._selector.unregister(self._node)
        while self._runs or operating_system.child_processes():
            for run in self._runs.values():
                run.signal_group(signal.SIGKILL)
            for pid in operating_system.child_processes():
                _kill(pid)
            self._wait(_CLEARING_TICK)
            self._reap()
            self._clear_ended()

    def _wait(self, seconds: float | None) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._wake_up:
                with contextlib.suppress(BlockingIOError):
                    self._wake_up.recv(RECEIVE_BYTES)
            elif isinstance(key.data, SupervisedRun):
                self._read_start(key.data)

    def _pause(self) -> float | None:
        if not self._runs:
            return None
        if any(run.status is not None for run in self._runs.values()):
            return _CLEARING_TICK
        left = min(_TICK, self._deadline - operating_system.boottime())
        return left if left > 0 else _CLEARING_TICK  # killed already, but not gone yet

    # Messages from the node.

    def _receive(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._node, RECEIVE_BYTES, 16)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            self._descriptors.extend(descriptors)
            if not data:
                self._node_gone = True
                return
            for message in self._incoming.take(data):
                self._obey(message)

    def _obey(self, message: dict[str, Any]) -> None:
        if message["do"] == "lease":
            self._deadline = message["deadline"]
        elif message["do"] == "run":
            self._start(message)
        elif (run := self._runs.get(message["run"])) is not None:
            if message["do"] == "stop":
                run.stop()
            elif message["do"] == "spare":
                run.outlives_lease = message["outlives_lease"]
            else:
                run.kill("asked")

    def _start(self, message: dict[str, Any]) -> None:
        descriptors = [self._descriptors.popleft() for _ in range(message["descriptors"])]
        run = SupervisedRun(message)
        if operating_system.boottime() >= self._deadline:
            run.cause, run.error = "lease", "the node's lease is over"
        else:
            try:
                spawn(run, descriptors)
            except OSError as error:  # no process or descriptor is free
                run.error = str(error)
        for descriptor in descriptors:
            os.close(descriptor)
        if run.error is not None:
            self._report_end(run)
            return
        self._runs[run.number] = run
        self._selector.register(run.start_pipe, selectors.EVENT_READ, run)

    def _read_start(self, run: SupervisedRun) -> None:
        """The pipe closes when the program starts; before that it has the error, if any."""
        if run.start_pipe < 0:
            return
        error = os.read(run.start_pipe, 4096)
        self._selector.unregister(run.start_pipe)
        os.close(run.start_pipe)
        run.start_pipe = -1
        if error:
            run.error = error.decode("utf-8", "replace")
            return
        self._say("started", run, pid=run.pid)
        if run.cause is not None:  # a stop that came before the program's own code reaches it now
            run.signal_group(signal.SIGTERM)

    def _keep_lease(self) -> None:
        if operating_system.boottime() >= self._deadline:
            for run in self._runs.values():
                if not run.outlives_lease:
                    run.kill("lease")

    # Ended children.

    def _reap(self) -> None:
        running = {run.pid: run for run in self._runs.values() if run.status is None}

        def end_group(pid: int) -> None:
            if pid in running:
                running[pid].signal_group(signal.SIGKILL)

        while (reaped := operating_system.reap_child(end_group)) is not None:
            pid, status = reaped
            if pid in running:
                running[pid].status = os.waitstatus_to_exitcode(status)

    def _clear_ended(self) -> None:
        """A run is over when all it has left behind is gone, too."""
        for run in [each for each in self._runs.values() if each.status is not None]:
            self._read_start(run)
            group_left = run.signal_group(signal.SIGKILL)
            escaped = self._escaped(run)
            for pid in escaped:
                _kill(pid)
            if not group_left and not escaped:
                del self._runs[run.number]
                self._report_end(run)

    def _escaped(self, run: SupervisedRun) -> list[int]:
        """Orphans that became our children and stem from this run."""
        mains = {each.pid for each in self._runs.values() if each.status is None}
        orphans = set(operating_system.child_processes()) - mains
        return [pid for pid in orphans if self._owner(pid) is run]

    def _owner(self, pid: int) -> SupervisedRun | None:
        """The run of an orphan: by session, by the fence in its environment, else by age.

        An orphan that left its session and cleared its environment can't belong to a run younger
        than itself. If several runs are older, it is nobody's, and dies with the supervisor.
        """
        try:
            session = os.getsid(pid)
        except ProcessLookupError:
            return None
        for run in self._runs.values():
            if run.pid == session or operating_system.environment_contains(pid, run.mark):
                return run
        born = operating_system.process_started(pid)
        older = [run for run in self._runs.values() if born is None or run.born <= born + 0.02]
        return older[0] if len(older) == 1 else None

    # Messages to the node.

    def _report_end(self, run: SupervisedRun) -> None:
        self._say("ended", run, status=run.status, cause=run.cause, error=run.error)

    def _say(self, event: str, run: SupervisedRun, **facts: Any) -> None:
        # Bounded by the runs the node has: two short messages for each.
        self._outgoing += message_bytes({"event": event, "run": run.number, **facts})

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._node.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:
            self._node_gone = True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _remove(directory: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
