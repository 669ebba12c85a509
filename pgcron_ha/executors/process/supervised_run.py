"""One process group as its supervisor sees it: how it is started, and its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import warnings  # noqa: F401 - os.execvpe imports it as a user that can't read these files
from collections.abc import Sequence
from typing import Any, Literal

from pgcron_ha import operating_system

Cause = Literal["asked", "lease"]

_ABOVE_ALL = 16  # more than the descriptors that a program is given

_LIMITS = {
    "cpu": resource.RLIMIT_CPU,
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}


class SupervisedRun:
    """``message`` asked for it. ``cause`` is why it was signalled, ``error`` why its program could
    not be started.

    ``status`` is None while its first process lives, then its exit status, or -N after signal N.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        self.number: int = message["run"]
        self.message = message
        mark: str = message["mark"]
        self.mark = f"{mark}={message['environment'][mark]}".encode()
        self.outlives_lease: bool = message.get("outlives_lease", False)
        self.born = operating_system.boottime()
        self.pid = 0
        self.start_pipe = -1
        self.status: int | None = None
        self.cause: Cause | None = None
        self.error: str | None = None

    def stop(self) -> None:
        """SIGTERM now."""
        if self.status is None and self.cause is None:
            self.cause = "asked"
            if self.start_pipe < 0:  # else when it has begun: before exec SIGTERM is ignored
                self.signal_group(signal.SIGTERM)

    def kill(self, cause: Cause) -> None:
        """SIGKILL now."""
        if self.status is None:
            self.cause = self.cause or cause
            self.signal_group(signal.SIGKILL)

    def signal_group(self, number: signal.Signals) -> bool:
        """Whether the group still has a member."""
        if self.status is None and self.start_pipe >= 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)  # it may not have made its group yet
        try:
            with contextlib.suppress(PermissionError):  # it has members that changed their user
                os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def spawn(run: SupervisedRun, descriptors: Sequence[int]) -> None:
    """Fork; sets ``pid`` and ``start_pipe``. Raises OSError when no process can be made.

    The program's descriptors from 1 on are ``descriptors``: stdout, stderr, and what else it gets.
    """
    run.start_pipe, failure = os.pipe()
    supervisor = os.getpid()
    try:
        run.pid = os.fork()
    except OSError:
        os.close(run.start_pipe)
        os.close(failure)
        run.start_pipe = -1
        raise
    if run.pid == 0:
        # Out of the way: it must not be where a descriptor of the program has to go.
        failure = fcntl.fcntl(failure, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ALL)
        try:
            _become(run.message, descriptors, failure, supervisor)
        except BaseException as error:
            program = run.message["argv"][0]
            os.write(failure, f"{program!r} could not be started: {error}".encode()[:4096])
        finally:
            os._exit(127)
    os.close(failure)


def _become(
    message: dict[str, Any], descriptors: Sequence[int], failure: int, supervisor: int
) -> None:
    """In the child: leave everything of the node behind, then be the program."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    # Python ignores some, the supervisor others, and what is ignored stays so across exec.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    argv, environment = message["argv"], message["environment"]
    reads_args = message.get("reads_args", False)
    begin = os.open(environment["PGCRON_ARGS_FILE"] if reads_args else os.devnull, os.O_RDONLY)
    sources = [fcntl.fcntl(each, fcntl.F_DUPFD, _ABOVE_ALL) for each in (begin, *descriptors)]
    for target, source in enumerate(sources):
        os.dup2(source, target)
    # Nothing else is inherited, above all not the lock. `failure` is closed by exec.
    os.closerange(len(sources), failure)
    os.closerange(failure + 1, os.sysconf("SC_OPEN_MAX"))
    # Hard limits, which the program can only lower; those that hold already stay if lower.
    for name, wanted in message.get("limits", {}).items():
        operating_system.set_limit(_LIMITS[name], wanted, is_hard=True)
    if message["account"] is not None:
        user, group = message["account"]
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    os.umask(0o077)  # others may nothing with the files that it makes, unless it says so
    if not message.get("may_gain_privileges", False):
        operating_system.gain_no_privileges()
    # After the change of user, which clears it.
    operating_system.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(127)
    if (directory := message.get("directory")) is not None:
        os.chdir(directory)
    os.execvpe(argv[0], argv, environment)
