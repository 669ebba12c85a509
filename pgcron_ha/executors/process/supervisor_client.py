"""The node's end of its supervisor: starts the process, sends and receives messages."""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_RECEIVE_BYTES = 65536
_END_SECONDS = 5.0

# Isolated (-I) and without site (-S): it imports two small modules by their path, and not our
# packages' __init__, which import more than a supervisor should hold in memory.
_PROGRAM = """
import sys, types
root = sys.argv.pop(1)
for folder in ("", "/executors", "/executors/process"):
    name = "pgcron_ha" + folder.replace("/", ".")
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [root + folder]
from pgcron_ha.executors.process.supervisor import main
main()
"""


class SupervisorClient:
    """A running supervisor. ``inherit`` are descriptors it keeps open until the last child is gone.

    At its end it removes ``directory`` and what is in it, if one is given, and kills what has
    ``mark`` (``NAME=value``) in its environment. Used by one thread.
    Nothing here waits for the supervisor but `close`.
    """

    def __init__(self, inherit: Sequence[int], directory: Path | None, mark: str = "") -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self._incoming = bytearray()
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        package = Path(__file__).resolve().parents[2]
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(package)),
                    *(str(theirs.fileno()), str(os.getpid()), str(directory or ""), mark),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(), *inherit),
                env={},
            )

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    @property
    def writing(self) -> bool:
        """Whether messages wait for room in the socket."""
        return bool(self._outgoing)

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Queue a message; its descriptors are closed here once they are on their way."""
        data = json.dumps(message).encode() + b"\n"
        self._outgoing.append((memoryview(data), descriptors))

    def flush(self) -> None:
        """Send as much as the socket takes. A supervisor that is gone shows in `receive`."""
        while self._outgoing:
            data, descriptors = self._outgoing.popleft()
            try:
                if descriptors:
                    sent = socket.send_fds(self.socket, [data], list(descriptors))
                else:
                    sent = self.socket.send(data)
            except BlockingIOError:
                self._outgoing.appendleft((data, descriptors))
                return
            except OSError:
                _close(descriptors)
                self._drop_outgoing()
                return
            _close(descriptors)
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], ()))

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have arrived; None when the supervisor is gone."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            return None
        self._incoming += data
        *complete, self._incoming = self._incoming.split(b"\n")
        return [json.loads(line) for line in complete]

    def close(self) -> bool:
        """End it: at the socket's end it kills what still runs, and exits. True when it has."""
        self._drop_outgoing()
        self.socket.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # a child in a state that even SIGKILL has to wait for
            return False
        return True

    def dismiss(self) -> None:
        """End it without anything that it does at its end."""
        self._process.kill()
        self.close()

    def _drop_outgoing(self) -> None:
        while self._outgoing:
            _close(self._outgoing.popleft()[1])


class Supervision:
    """A supervisor as a loop uses it: opened when it is needed, replaced when it was killed. It
    shows in the selector without data. ``inherit`` and ``directory`` are those of its client.
    """

    def __init__(
        self, selector: selectors.BaseSelector, inherit: Sequence[int], directory: Path | None
    ) -> None:
        self._selector = selector
        self._inherit = tuple(inherit)
        self._directory = directory
        self._client: SupervisorClient | None = None
        self._events = 0
        self._lease_sent = math.inf

    def open(self) -> None:
        """Unless it is. Raises OSError when it can't be started."""
        if self._client is None:
            self._client = SupervisorClient(self._inherit, self._directory)
            self._events = selectors.EVENT_READ
            self._selector.register(self._client.socket, self._events)
            self._lease_sent = math.inf

    def start(self, number: int, descriptors: tuple[int, ...], **message: Any) -> None:
        """Start a process with these descriptors from stdout on. Raises OSError when there is no
        supervisor and none can be started.
        """
        self.open()
        self._say("run", number, descriptors, descriptors=len(descriptors), **message)

    def stop(self, number: int) -> None:
        """SIGTERM to the process group, and SIGKILL when its grace is over."""
        self._say("stop", number)

    def kill(self, number: int) -> None:
        """SIGKILL to the process and all that stem from it."""
        self._say("kill", number)

    def spare(self, number: int, is_spared: bool) -> None:
        """Whether the process lives on when the lease is over."""
        self._say("spare", number, outlives_lease=is_spared)

    def renew_lease(self, deadline: float) -> bool:
        """Whether the deadline is news."""
        if self._client is None or deadline == self._lease_sent:
            return False
        self._lease_sent = deadline
        self._client.send({"do": "lease", "deadline": deadline})
        return True

    def flush(self) -> None:
        """Send what waits."""
        if self._client is not None:
            self._client.flush()
            events = selectors.EVENT_READ
            if self._client.writing:
                events |= selectors.EVENT_WRITE
            if self._events != events:
                self._events = events
                self._selector.modify(self._client.socket, events)

    def receive(self) -> list[dict[str, Any]] | None:
        """What it says; None when somebody has killed it, and its children with it."""
        if self._client is None:
            return []
        messages = self._client.receive()
        if messages is None:
            self._selector.unregister(self._client.socket)
            self._client.close()
            self._client = None
        return messages

    def close(self) -> bool:
        """End it and all children; True when they are gone."""
        return self._client is None or self._client.close()

    def _say(self, what: str, number: int, passed: tuple[int, ...] = (), **message: Any) -> None:
        if self._client is not None:
            self._client.send({"do": what, "run": number, **message}, passed)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
