"""What handlers start beside the executors, such as ``subprocess.run`` in a plain function.

Such a process would outlive a node that is killed, while others begin its run again. So whatever a
node's process starts has a mark in its environment, a small process kills what has it when the node
has died, and a successor does before it joins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from pgcron_ha.executors.process.supervisor_client import SupervisorClient
from pgcron_ha.operating_system import kill_processes_with

MARK: Final = "PGCRON_NODE_PROCESS"


@contextmanager
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
    try:
        before = file.read_text(encoding="ascii").strip()
    except OSError:
        before = ""
    mark = os.environ.get(MARK, "")
    if before and before != mark:
        kill_processes_with(f"{MARK}={before}".encode())
    file.write_text(mark, encoding="ascii")
