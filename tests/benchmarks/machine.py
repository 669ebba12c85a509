"""What /proc says: processor time of processes, their memory, and what machine this is."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process_id: int, *, with_waited_children: bool = False) -> float:
    """User and system time so far; 0 for a process that is gone."""
    fields = _stat(process_id)
    return sum(int(field) for field in fields[11 : 15 if with_waited_children else 13]) / _TICKS


def fine_cpu_seconds(process_id: int) -> float:
    """As `cpu_seconds`, to the nanosecond, where the kernel tells it; for a process of one thread,
    such as a backend.
    """
    try:
        text = Path(f"/proc/{process_id}/schedstat").read_text(encoding="ascii")
    except OSError:
        return cpu_seconds(process_id)
    return int(text.split()[0]) / 1e9


def children(process_id: int) -> list[int]:
    """The process's children that are alive."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    numbers = [int(entry.name) for entry in entries]
    return [number for number in numbers if _stat(number)[1:2] == [str(process_id)]]


def server_cpu_seconds(postmaster: int, observer: int) -> float:
    """What a whole PostgreSQL server has used, but for the backend of an observer."""
    backends = sum(cpu_seconds(each) for each in children(postmaster) if each != observer)
    return cpu_seconds(postmaster, with_waited_children=True) + backends


def peak_memory_bytes(process_id: int) -> int:
    """The most that the process had resident."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def described() -> str:
    """The machine in a few words."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} cores {model}, {platform.system()} {platform.release()}"


def _stat(process_id: int) -> list[str]:
    """The fields after the process's name: state, parent, …; nothing when it is gone."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
