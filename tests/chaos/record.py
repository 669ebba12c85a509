"""Evidence outside the product: one JSON object a line, one append a line, one clock for all.

Handlers, clients, nemeses and the nodes' failpoints write to the same file. CLOCK_BOOTTIME is the
same in every process of a machine, so who did what when can be compared without the database.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgcron_ha.operating_system import boottime

VARIABLE = "CHAOS_EVIDENCE"
LONGEST_LINE = 4096
"""Bytes up to which an append is one write of the kernel."""

_descriptors: dict[str, int] = {}


def write(kind: str, **facts: Any) -> None:
    """Append one line to the file that the environment names."""
    line = json.dumps({"kind": kind, "at": boottime(), "pid": os.getpid(), **facts}) + "\n"
    encoded = line.encode()
    assert len(encoded) < LONGEST_LINE, f"too long for one append: {line[:200]}"
    os.write(_descriptor(os.environ[VARIABLE]), encoded)


def _descriptor(path: str) -> int:
    if path not in _descriptors:
        _descriptors[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    return _descriptors[path]


def begin(path: Path) -> None:
    """An empty file that everybody may append to; this process and its children write there."""
    path.touch()
    path.chmod(0o666)  # programs of shell templates may be another user
    os.environ[VARIABLE] = str(path)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """What was written, in its order; a line that was cut by a death does not count."""
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            continue
