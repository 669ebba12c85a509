"""A node, or the pages, as a process of the demo, and the script that ties it to the demo's life.

``python -m pgcron_ha.demo.node_process PARENT ARGUMENT…`` becomes ``pgcron-ha ARGUMENT…`` in the
same process, which the kernel ends with PARENT: a demo that was killed leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgcron_ha.executors.operating_system import set_parent_death_signal

# Of a node's log, what fits on a screen and has the reason.
_LONGEST_REASON = 1200


class NodeProcess:
    """One that was started; its group is its own, so that a Ctrl-C reaches the demo alone."""

    def __init__(
        self,
        name: str,
        configuration: Path,
        log: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
    ) -> None:
        """Starts ``pgcron-ha ARGUMENT…``, a node of that name when there are none.

        To be called from the main thread: the process ends with the thread that starts it.
        """
        self.name = name
        self.log = log
        command = [sys.executable, "-m", "pgcron_ha.demo.node_process", str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *command,
                    "--config",
                    str(configuration),
                    *(arguments or ("node", "--name", name)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=configuration.parent,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def ending(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace").strip()[-_LONGEST_REASON:]

    def terminate(self) -> None:
        """Tell it to drain and leave."""
        if self.is_alive:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Return when it has ended, or after so many seconds. Blocks."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass  # the caller ends it by force

    def kill(self) -> None:
        """End it at once; its supervisor ends what it executes."""
        if self.is_alive:
            self._process.kill()
            self._process.wait()


def main(arguments: list[str]) -> None:
    """Do what the module says."""
    parent, *command = arguments
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("the demo has ended")  # before the signal was asked for
    os.execv(sys.executable, [sys.executable, "-m", "pgcron_ha", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
