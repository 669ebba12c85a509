"""The node's end of its supervisor: starts the process and ends it.

What handlers start beside the executors, such as ``subprocess.run`` in a plain function, would
outlive a node that is killed, while others begin its run again. So whatever a node's process starts
has a mark in its environment, such a small process kills what has it when the node has died, and a
successor does before it joins.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from pgcron_ha.executors.process.conversation import Conversation
from pgcron_ha.operating_system import kill_processes_with

MARK: Final = "PGCRON_NODE_PROCESS"

_END_SECONDS = 5.0

# Isolated (-I) and without site (-S): it imports the standard library and three small modules. They
# load the packages `pgcron_ha`, `executors` and `executors.process` with them, so the `__init__` of
# these may import next to nothing: it would stay in memory.
_PROGRAM = """
import sys
sys.path.append(sys.argv.pop(1))
from pgcron_ha.executors.process.supervisor import main
main()
"""


class SupervisorClient(Conversation):
    """A running supervisor. ``inherit`` are descriptors it keeps open until the last child is gone.

    At its end it removes ``directory`` and what is in it, if one is given, and kills what has
    ``mark`` (``NAME=value``) in its environment. Nothing here waits for the supervisor but `close`.
    """

    def __init__(self, inherit: Sequence[int], directory: Path | None, mark: str = "") -> None:
        super().__init__()
        root = Path(__file__).resolve().parents[3]
        with self.theirs as theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(root)),
                    *(str(theirs.fileno()), str(os.getpid()), str(directory or ""), mark),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(), *inherit),
                env={},
            )

    def close(self) -> None:
        """End it: at the socket's end it kills what still runs, and exits."""
        super().close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # even SIGKILL waits for a child
            self._process.wait(_END_SECONDS)

    def dismiss(self) -> None:
        """End it without anything that it does at its end."""
        self._process.kill()
        self.close()


@contextlib.contextmanager
def descendants_die_too() -> Iterator[None]:
    """While this goes on they die with this process; they live on when it ends in order."""
    os.environ[MARK] = uuid4().hex
    guard = SupervisorClient((), None, f"{MARK}={os.environ[MARK]}")
    try:
        yield
    finally:
        guard.dismiss()
        del os.environ[MARK]


def bury_descendants(directory: Path) -> None:
    """Kill what is left of the process that used this folder before, and record the new owner."""
    file = directory / "processes"
    before = file.read_text(encoding="ascii").strip() if file.exists() else ""
    mark = os.environ.get(MARK, "")
    if before and before != mark:
        kill_processes_with(f"{MARK}={before}".encode())
    file.write_text(mark, encoding="ascii")
