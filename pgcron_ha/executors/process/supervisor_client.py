"""The node's end of its supervisor: starts the process, sends and receives messages."""

from __future__ import annotations

import math
import os
import selectors
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgcron_ha.executors.process.conversation import Conversation

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


class SupervisorClient(Conversation):
    """A running supervisor. ``inherit`` are descriptors it keeps open until the last child is gone.

    At its end it removes ``directory`` and what is in it, if one is given, and kills what has
    ``mark`` (``NAME=value``) in its environment. Used by one thread.
    Nothing here waits for the supervisor but `close`.
    """

    def __init__(self, inherit: Sequence[int], directory: Path | None, mark: str = "") -> None:
        super().__init__()
        theirs = self.open_socket()
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

    def close(self) -> bool:
        """End it: at the socket's end it kills what still runs, and exits. True when it has."""
        self.drop_outgoing()
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
        self._client.queue({"do": "lease", "deadline": deadline})
        return True

    def flush(self) -> None:
        """Send what waits."""
        if self._client is not None:
            self._client.flush()
            events = selectors.EVENT_READ
            if self._client.is_writing:
                events |= selectors.EVENT_WRITE
            if self._events != events:
                self._events = events
                self._selector.modify(self._client.socket, events)

    def receive(self) -> list[dict[str, Any]] | None:
        """What it says; None when somebody has killed it, and its children with it."""
        if self._client is None:
            return []
        messages = self._client.received()
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
            self._client.queue({"do": what, "run": number, **message}, passed)
