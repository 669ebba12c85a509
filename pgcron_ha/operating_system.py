"""What differs between Linux and macOS: a clock that counts suspend, bonds between processes; and
file locks, which the kernel gives back when their process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path  # which the small process that supervises others does without

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


boottime: Final[Callable[[], float]] = functools.partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)
"""Seconds on a clock that goes on while the machine is suspended; the same in all processes.
CLOCK_MONOTONIC stops during suspend on Linux; on macOS it goes on.
"""


def set_limit(kind: int, wanted: int | None, *, is_hard: bool = False) -> None:
    """Set the soft limit of this process, or both: ``wanted`` (None: no limit but the hard one),
    and no more than the hard limit.
    """
    hard = resource.getrlimit(kind)[1]
    if wanted is None or (hard != resource.RLIM_INFINITY and hard < wanted):
        wanted = hard
    resource.setrlimit(kind, (wanted, wanted if is_hard else hard))


def set_parent_death_signal(number: int) -> bool:
    """Have the kernel send this signal when the parent dies. False where there is no such thing.

    Lost at a change of user: call it after that.
    """
    return _prctl(1, number)  # PR_SET_PDEATHSIG


def set_child_subreaper() -> bool:
    """Become the parent of orphaned descendants. False where there is no such thing."""
    return _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def hide_from_others() -> bool:
    """Keep the environment and the memory of this process from other processes of its user. False
    where there is no such thing. Programs that it starts are not hidden.
    """
    return _prctl(4, 0)  # PR_SET_DUMPABLE


def gain_no_privileges() -> bool:
    """Let neither this process nor what it becomes get rights by executing a set-user-ID program,
    such as sudo. False where there is no such thing.
    """
    return _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS


def kill_processes_with(entry: bytes, seconds: float = 5.0) -> None:
    """SIGKILL to each process, but this one and those above it, whose environment has this
    ``NAME=value``, until none is left. Nothing where there is no ``/proc``.
    """
    spared, parent = {0, 1}, os.getpid()
    while parent not in spared:
        spared.add(parent)
        parent = int((_stat_fields(parent) or ["", "0"])[1])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = [pid for pid in {*_processes()} - spared if environment_contains(pid, entry)]
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                spared.add(pid)
        time.sleep(0.01)


def child_processes() -> list[int]:
    """The ids of this process's children, adopted orphans and zombies included.

    Empty where there is no ``/proc``.
    """
    try:
        threads = os.listdir("/proc/self/task")
        listed = [_listing(f"/proc/self/task/{thread}/children") for thread in threads]
        return [int(pid) for listing in listed for pid in listing.split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        me = str(os.getpid())
        return [pid for pid in _processes() if (_stat_fields(pid) or ["", ""])[1] == me]


def living_children() -> list[int]:
    """As `child_processes`, without zombies."""
    return [pid for pid in child_processes() if (_stat_fields(pid) or ["Z"])[0] not in "ZX"]


def resident_bytes(pid: int | str = "self") -> int:
    """The memory that a process holds; 0 where that can't be known."""
    try:
        return int(_listing(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def reap_child(before: Callable[[int], object]) -> tuple[int, int] | None:
    """Reap a child that has ended: its id and wait status; None if there is none.

    ``before`` is called with its id while it still is a zombie, so that the number can't be that of
    another process or group. (On macOS it is called just after.)
    """
    try:
        if sys.platform == "darwin":
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return None
            before(pid)
            return pid, status
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        before(ended.si_pid)
        return os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return None


def process_started(pid: int) -> float | None:
    """The boottime instant at which a process was forked; None if it is gone or can't be known."""
    fields = _stat_fields(pid)
    return None if fields is None else int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    """Whether there is such a process; a zombie is none, where there is a ``/proc``."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return (_stat_fields(pid) or ["R"])[0] not in "ZX"


def kill_group(group: int) -> bool:
    """SIGKILL to a group of processes that need not be ours; True if one still lives.

    A zombie does not: its parent may be an init process that is slow to reap, or never does.
    """
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    except PermissionError:  # members that changed their user
        return True
    found = [_stat_fields(pid) for pid in _processes()]
    living = [each for each in found if each and each[2] == str(group) and each[0] not in "ZX"]
    return bool(living) or not found


def environment_contains(pid: int, entry: bytes) -> bool:
    """Whether the environment a process was started with has this ``NAME=value``."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return entry in environment.read().split(b"\0")
    except OSError:
        return False


def _processes() -> list[int]:
    """The ids of all processes; none where there is no ``/proc``."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _listing(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _prctl(option: int, value: int) -> bool:
    return _libc is not None and _libc.prctl(option, value, 0, 0, 0) == 0


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` after the name (proc(5): index 0 is the state)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return None


def how_it_ended(status: int) -> str:
    """``exited with status 3``, ``killed by signal 9 (SIGKILL)`` for -9."""
    if status >= 0:
        return f"exited with status {status}"
    name = ""
    with contextlib.suppress(ValueError):  # a real-time signal has no name
        name = f" ({signal.Signals(-status).name})"
    return f"killed by signal {-status}{name}"


IN_FORKED_CHILD: Final[dict[object, Callable[[], object]]] = {}
"""What is done, by whom, in a process that this one forks: handlers may fork."""


os.register_at_fork(after_in_child=lambda: [each() for each in list(IN_FORKED_CHILD.values())])


class FileLock:
    """An `flock` on one file, held until `release` or the death of the process; also if nobody
    remembers this object.

    Programs started meanwhile do not inherit it, nor do forked children, unless its `descriptor` is
    passed on: then it is held until the last holder of that descriptor is gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1  # none: the lock is not held

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self.descriptor >= 0

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; True if it is held now. Raises OSError for the file."""
        if self.is_held:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self.descriptor = descriptor
        IN_FORKED_CHILD[self] = self.release
        return True

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held.

        Closed, never unlocked: a process that inherited the descriptor keeps the lock.
        """
        if self.is_held:
            os.close(self.descriptor)
            self.descriptor = -1
            del IN_FORKED_CHILD[self]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
