"""The node's end of its supervisor: starts the process and ends it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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
    ``mark`` (``NAME=value``) in its environment. Nothing here waits for the supervisor but `close`.
    """

    def __init__(self, inherit: Sequence[int], directory: Path | None, mark: str = "") -> None:
        super().__init__()
        package = Path(__file__).resolve().parents[2]
        with self.theirs as theirs:
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

    def close(self) -> None:
        """End it: at the socket's end it kills what still runs, and exits."""
        super().close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # even SIGKILL waits for a child
            self._process.wait(_END_SECONDS)

    def dismiss(self) -> None:
        """End it without anything that it does at its end."""
        self._process.kill()
        self.close()
