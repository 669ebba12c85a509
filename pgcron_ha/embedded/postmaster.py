"""Is the server of a folder running? A pid in a file is a claim; this module checks it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Lines of postmaster.pid, counted from 0 (PostgreSQL: src/include/utils/pidfile.h).
_PID, _SOCKET_DIRECTORY, _STATUS = 0, 4, 7

# `ps` answers in milliseconds; more means the machine is not usable.
_PS_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Postmaster:
    """The live server of a folder."""

    pid: int
    socket_directory: str
    is_ready: bool


def find_postmaster(pgdata: Path) -> Postmaster | None:
    """The server that runs on `pgdata` now, or None.

    A dead pid, a zombie, and a pid that the system gave to another program since are None.
    """
    lines = _pid_file(pgdata)
    pid = _pid(lines)
    if pid is None or str(pgdata) not in _command_of(pid):
        return None
    return Postmaster(
        pid=pid,
        socket_directory=_line(lines, _SOCKET_DIRECTORY),
        is_ready=_line(lines, _STATUS) == "ready",
    )


def remove_stale_pid_file(pgdata: Path) -> None:
    """Remove postmaster.pid if it names a process that is not our server but lives or is a zombie.

    PostgreSQL believes any such pid and would refuse to start. Call it only when `find_postmaster`
    says None and nobody else can start the server. Leftover backends of a killed server are still
    noticed: since PostgreSQL 12 their shared memory is found by the folder, not by this file.
    """
    pid = _pid(_pid_file(pgdata))
    if pid is not None and _exists(pid):
        (pgdata / "postmaster.pid").unlink(missing_ok=True)


def _pid_file(pgdata: Path) -> list[str]:
    try:
        return (pgdata / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _line(lines: list[str], number: int) -> str:
    return lines[number].strip() if number < len(lines) else ""


def _pid(lines: list[str]) -> int | None:
    text = _line(lines, _PID)
    return int(text) if text.isdecimal() and int(text) > 1 else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _command_of(pid: int) -> str:
    """The command line of a live process; empty for none, and for a zombie."""
    if Path("/proc/self/cmdline").exists():
        return _command_from_proc(pid)
    return _command_from_ps(pid)


def _command_from_proc(pid: int) -> str:
    try:
        # A zombie has no memory left, and with it no arguments: the file is empty.
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
    except OSError:
        return ""


def _command_from_ps(pid: int) -> str:
    answer = subprocess.run(
        ["ps", "-o", "stat=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PS_TIMEOUT_SECONDS,
    )
    state, _, command = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else command
