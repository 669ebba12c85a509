"""The cluster of a folder: made, fitting the programs at hand, and running or not; and the one
limit for bringing it up, in many steps.

A pid in a file is a claim; `find_postmaster` checks it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pgcron_ha.embedded.binaries import BIN_VARIABLE, Binaries, answer_of
from pgcron_ha.embedded.directory import DataDirectory, Identity
from pgcron_ha.errors import ConfigError, DatabaseUnavailable
from pgcron_ha.operating_system import FileLock

SUPERUSER = "pgcron"

# What a small machine can spare and a handful of nodes need; postgresql.conf is the user's to edit.
# The superuser is called as the product's schema: "$user" would put there what is made without one.
_SETTINGS = """
search_path = 'public'
max_connections = 100
shared_buffers = 64MB
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off
client_connection_check_interval = 2s
"""

LONGEST_REASON = 800
"""Of what a program says: the last lines have the reason."""

# Lines of postmaster.pid, counted from 0 (PostgreSQL: src/include/utils/pidfile.h).
_PID, _SOCKET_DIRECTORY, _STATUS = 0, 4, 7

# Short beside the 0.1 s a warm start takes, long enough to cost nothing.
PAUSE_SECONDS = 0.02


class Deadline:
    """The end of an operation, counted from its construction, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    def pause(self, waiting_for: str, seconds: float = PAUSE_SECONDS) -> None:
        """Wait a moment before looking again; raises DatabaseUnavailable when the time is over."""
        if self.remaining() == 0.0:
            raise self.expired(waiting_for)
        time.sleep(min(seconds, self.remaining()))

    def acquire(self, lock: FileLock, waiting_for: str, *, shared: bool = False) -> None:
        """Take the lock; raises DatabaseUnavailable if it is not free in time."""
        while not lock.try_acquire(shared=shared):
            self.pause(waiting_for)

    def expired(self, waiting_for: str) -> DatabaseUnavailable:
        """The error for a wait that took too long."""
        return DatabaseUnavailable(
            f"The embedded PostgreSQL was not up within {self.seconds:g} s",
            f"The time ended while waiting for {waiting_for}.",
            "Look into postgres.log in its folder; on a slow machine, try again: recovery goes on.",
        )


def initialise(
    directory: DataDirectory, binaries: Binaries, start_lock: FileLock, deadline: Deadline
) -> None:
    """Make a new cluster with a password of its own; complete or not there, even if this process
    is killed.

    Raises DatabaseUnavailable with initdb's words if that fails. initdb inherits `start_lock`: if
    this process is killed, no other begins before initdb has ended.
    """
    unfinished = directory.unfinished_pgdata
    shutil.rmtree(unfinished, ignore_errors=True)
    _check_reachable(directory)
    _write_password(directory)
    unfinished.mkdir(mode=0o700)
    _give(unfinished, directory.identity)
    command: list[str | Path] = [
        *(binaries.tool("initdb"), "-D", unfinished, "-U", SUPERUSER),
        *("--pwfile", directory.password_file, "-A", "scram-sha-256"),
        *("-E", "UTF8", "--locale=C", "--data-checksums"),
    ]
    try:
        made = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            env=binaries.environment(),
            pass_fds=(start_lock.descriptor,),
            timeout=deadline.remaining(),
            **directory.identity.options,
        )
    except subprocess.TimeoutExpired:
        raise deadline.expired("initdb") from None
    if made.returncode != 0:
        raise DatabaseUnavailable(
            "PostgreSQL's initdb could not make the embedded database",
            made.stdout.strip()[-LONGEST_REASON:],
            "Remove the cause and start again; nothing unfinished is kept.",
        )
    with (unfinished / "postgresql.conf").open("a") as configuration:
        configuration.write(_SETTINGS)
    unfinished.rename(directory.pgdata)


def check_version(directory: DataDirectory, binaries: Binaries) -> None:
    """Raise ConfigError if the cluster was made by another major version than the programs have."""
    made_by = (directory.pgdata / "PG_VERSION").read_text().strip()
    if made_by != str(binaries.major):
        raise ConfigError(
            f"The data in '{directory.path}' is of PostgreSQL '{made_by}', "
            f"the programs in '{binaries.directory}' are of PostgreSQL '{binaries.major}'",
            "A server reads only data of its own major version.",
            f"Set {BIN_VARIABLE} to the programs of PostgreSQL {made_by} (to keep the data, dump it"
            " with them and restore it), or remove the folder to begin anew.",
        )


def readable_binaries(directory: DataDirectory, binaries: Binaries) -> Binaries:
    """Programs that the server's user can run: the given ones, else a copy of them in the folder.

    Root's own virtual environment is often in a place that another user can't enter.
    """
    identity = directory.identity
    if not identity.changes_user or _can_run(binaries, identity):
        return binaries
    copied = binaries.copied_to(directory.binaries)
    if not _can_run(copied, identity):
        # Of another installation, which was updated or replaced since.
        shutil.rmtree(directory.binaries)
        copied = binaries.copied_to(directory.binaries)
    return copied


def hand_over(directory: DataDirectory) -> None:
    """Give the folder and its small files to the server's user, if that is another one."""
    identity = directory.identity
    locks = (directory.users_lock, directory.keeper_lock, directory.start_lock)
    for path in (directory.path, directory.password_file, *locks, directory.log):
        if path.exists():
            _give(path, identity)


def _check_reachable(directory: DataDirectory) -> None:
    probe, identity = ("test", "-w", directory.path), directory.identity
    if identity.changes_user and answer_of(*probe, **identity.options) is None:
        raise ConfigError(
            f"The server's user can't reach the folder '{directory.path}'",
            f"Root's server runs as the user with the id {identity.uid} here, who may not enter "
            "one of the folders above it.",
            "Choose a folder that everybody may enter, such as one in /var/lib, or set "
            "PGCRON_HA_DSN.",
        )


def _can_run(binaries: Binaries, identity: Identity) -> bool:
    # Both: they need different libraries, and not every installation has them in the same place.
    programs = (binaries.directory / name for name in ("postgres", "initdb"))
    return all(answer_of(each, "--version", **identity.options) is not None for each in programs)


def _give(path: os.PathLike[str], identity: Identity) -> None:
    if identity.changes_user:
        os.chown(path, identity.uid, identity.gid)


def _write_password(directory: DataDirectory) -> None:
    directory.password_file.unlink(missing_ok=True)
    directory.password_file.touch(mode=0o600, exist_ok=False)
    directory.password_file.write_text(secrets.token_urlsafe(24))
    _give(directory.password_file, directory.identity)


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
    try:
        written = (pgdata / "postmaster.pid").read_text().splitlines()
    except OSError:
        return None
    lines = [line.strip() for line in written] + [""] * (_STATUS + 1)  # while it is being written
    pid = int(lines[_PID]) if lines[_PID].isdecimal() else 0
    if pid <= 1 or str(pgdata) not in _command_of(pid):
        return None
    return Postmaster(pid, lines[_SOCKET_DIRECTORY], is_ready=lines[_STATUS] == "ready")


def _command_of(pid: int) -> str:
    """The command line of a live process; empty for none, and for a zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            # A zombie has no memory left, and with it no arguments: the file is empty.
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            return ""
    answer = answer_of("ps", "-o", "stat=,command=", "-p", str(pid)) or ""
    state, _, command = answer.strip().partition(" ")
    return "" if state.startswith("Z") else command
