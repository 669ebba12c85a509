"""Nodes that are at work within tenths of a second, so that one can be killed every second.

``python -m tests.e2e.nursery MODULE`` imports what a node needs, and the module of its App, once.
For each line of JSON on its stdin (arguments, environment, log) it forks a process that becomes a
node as ``pgcron-ha`` does, and says its process id. It has one thread, and ends with its stdin;
nodes go on.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn, Self

from tests.waiting import wait_for

_OF_A_NODE: Final = (
    "pgcron_ha.cli.main",
    "pgcron_ha.cli.node",
    "pgcron_ha.engine.node",
    "pgcron_ha.executors.contract.transaction",
    "uvloop",
)


class Nursery:
    """``with Nursery(module) as nursery``."""

    def __init__(self, module: str) -> None:
        self._module = module

    def start(self, arguments: list[str], environment: dict[str, str], log: Path) -> NurseryProcess:
        """A process that becomes ``pgcron-ha`` with these arguments."""
        log.touch()
        options = {"arguments": arguments, "environment": environment, "log": str(log)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(options) + "\n")
        self._process.stdin.flush()
        return NurseryProcess(int(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.nursery", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


class NurseryProcess:
    """The part of `subprocess.Popen` that tests of nodes use. Its exit status is nobody's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if is_gone(self.pid):
            self.returncode = 0
        return self.returncode

    def wait(self, timeout: float) -> int:
        wait_for(f"process {self.pid} is gone", lambda: self.poll() is not None, deadline=timeout)
        return 0

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def is_gone(pid: int) -> bool:
    """A zombie is gone: whoever inherited it may be slow to look."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def main() -> None:
    for module in (*_OF_A_NODE, sys.argv[1]):
        importlib.import_module(module)
    gc.freeze()  # what all of them share is not copied
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become_a_node(**json.loads(line))
        print(pid, flush=True)


def _become_a_node(arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        for target, source in enumerate((nothing, output, output)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["pgcron-ha", *arguments]
        from tests.product.cli import main as command

        status = command() or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
