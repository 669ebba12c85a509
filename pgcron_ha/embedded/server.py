"""The embedded server as its users see it: up, a DSN, down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from pgcron_ha.embedded import cluster
from pgcron_ha.embedded.binaries import Binaries, find_binaries
from pgcron_ha.embedded.directory import DataDirectory
from pgcron_ha.errors import ConfigError, DatabaseUnavailable
from pgcron_ha.operating_system import FileLock

# A fresh start takes a second and recovery a few; a machine under load needs several times that.
DEFAULT_TIMEOUT_SECONDS = 60.0

# Part of the socket's name only, so it can be the same for everybody.
_PORT = 5432

_SHIM = str(Path(__file__).with_name("shim.py"))

# The keeper detaches itself at once.
_SPAWN_TIMEOUT_SECONDS = 10.0

# Looked at when the server starts: the log can't fill the disk by being kept for years.
_LARGEST_LOG_BYTES = 10 * 1024 * 1024

# What PostgreSQL says while the backends of a killed server are still going away.
_PASSING_REASONS = ("still in use", "already exists")
_PASSING_PAUSE_SECONDS = 0.1


class EmbeddedPostgres:
    """The server of one folder, shared with every other process that uses the same folder.

    A handle is for one process, and for one thread at a time; a forked child makes its own.
    """

    def __init__(self, data_directory: str | os.PathLike[str]) -> None:
        self.directory = DataDirectory(data_directory)
        self._users = FileLock(self.directory.users_lock)
        self._postmaster: cluster.Postmaster | None = None

    @property
    def pid(self) -> int:
        """The process id of the server that the last `up()` found or started."""
        return self._known_server().pid

    def up(self, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> Self:
        """Make, start, recover or find the server; return when it takes connections.

        The server stays up until `down()` or the end of this process, and while others use it. If
        it was killed meanwhile, call `up()` again. Takes at most `timeout` seconds. Raises
        ConfigError for what somebody must change (no PostgreSQL, the folder, its version) and
        DatabaseUnavailable for a server that does not start, with the server's own words.
        """
        deadline = cluster.Deadline(timeout)
        self.directory.create()
        was_user = self._users.is_held
        try:
            # Held while the server of the last user shuts down.
            deadline.acquire(self._users, "the server to shut down", shared=True)
            with FileLock(self.directory.start_lock) as start:
                deadline.acquire(start, "another process that starts the server")
                self._postmaster = self._bring_up(start, deadline)
        except BaseException as error:
            if not was_user:
                self._users.release()
            if isinstance(error, (OSError, subprocess.SubprocessError)):
                raise self._does_not_start(f"The system says: {error}.") from error
            raise
        return self

    def running_dsn(self) -> str | None:
        """`dsn` if the server runs already, for somebody; nothing is started."""
        self._postmaster = cluster.find_postmaster(self.directory.pgdata)
        return None if self._postmaster is None else self.dsn()

    def dsn(self, database: str = "postgres") -> str:
        """A libpq URI for a database of this server, as its superuser, password included."""
        sockets = self._known_server().socket_directory
        try:
            password = self.directory.password_file.read_text()
        except OSError as error:
            raise ConfigError(
                f"The password file '{self.directory.password_file}' can't be read",
                f"The system says: {error.strerror or error}.",
                "Restore the file, or remove the whole folder to begin anew.",
            ) from error
        login = f"{cluster.SUPERUSER}:{quote(password, safe='')}"
        place = f"{quote(database, safe='')}?host={quote(sockets)}&port={_PORT}"
        return f"postgresql://{login}@/{place}"

    def down(self) -> None:
        """Stop using the server; it stops soon after if nobody else uses it. Does not wait."""
        self._postmaster = None
        self._users.release()

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    def _known_server(self) -> cluster.Postmaster:
        if self._postmaster is None:
            raise DatabaseUnavailable(
                "The embedded PostgreSQL is not up",
                "Its DSN and its process exist from up() to down() only.",
                "Call up() first.",
            )
        return self._postmaster

    def _bring_up(self, start: FileLock, deadline: cluster.Deadline) -> cluster.Postmaster:
        """Make the server run, with a keeper; `start` is held."""
        binaries = find_binaries()
        if not self.directory.pgdata.exists():  # it gets its name when it is complete
            cluster.hand_over(self.directory)
            usable = cluster.readable_binaries(self.directory, binaries)
            cluster.initialise(self.directory, usable, start, deadline)
        cluster.check_version(self.directory, binaries)
        keeper = FileLock(self.directory.keeper_lock)
        log_position: int | None = None
        while True:
            is_kept = not keeper.try_acquire()
            found = cluster.find_postmaster(self.directory.pgdata)
            if is_kept and found is not None and found.is_ready:
                return found
            if not is_kept:
                with keeper:
                    if found is not None:  # its keeper was killed: nobody would ever stop it
                        with suppress(ProcessLookupError):
                            os.kill(found.pid, signal.SIGINT)
                    else:  # no process is about to start one, or the last attempt has failed
                        if log_position is not None:
                            self._raise_unless_passing(log_position)
                            deadline.pause("the last server's processes", _PASSING_PAUSE_SECONDS)
                        log_position = self._start(binaries, keeper)
            deadline.pause("the server to take connections")

    def _start(self, binaries: Binaries, keeper: FileLock) -> int:
        """Start a keeper with a server; returns where the log begins to be about it."""
        usable = cluster.readable_binaries(self.directory, binaries)
        self.directory.create_socket_directory()
        cluster.hand_over(self.directory)
        # If it names another process, alive or a zombie, PostgreSQL would refuse to start. Leftover
        # backends of a killed server are still noticed: since PostgreSQL 12 their shared memory is
        # found by the folder, not by this file.
        (self.directory.pgdata / "postmaster.pid").unlink(missing_ok=True)
        log = self.directory.log
        if log.exists() and log.stat().st_size > _LARGEST_LOG_BYTES:
            log.replace(self.directory.older_log)
        position = log.stat().st_size if log.exists() else 0
        command = (
            *(sys.executable, "-I", "-S", _SHIM, keeper.descriptor, self.directory.users_lock),
            *(self.directory.socket_directory, *self.directory.identity),
            *(usable.tool("postgres"), "-D", self.directory.pgdata),
            *("-k", self.directory.socket_directory, "-p", _PORT),
            *("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"),
        )
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
            subprocess.run(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=usable.environment(),
                pass_fds=(keeper.descriptor,),
                check=True,
                timeout=_SPAWN_TIMEOUT_SECONDS,
            )
        return position

    def _raise_unless_passing(self, log_position: int) -> None:
        with self.directory.log.open("rb") as log:
            log.seek(log_position)
            reason = log.read().decode(errors="replace").strip()[-cluster.LONGEST_REASON :]
        if not any(passing in reason for passing in _PASSING_REASONS):
            raise self._does_not_start(reason)

    def _does_not_start(self, reason: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"The embedded PostgreSQL in '{self.directory.path}' does not start",
            reason,
            f"Look into '{self.directory.log}', or set PGCRON_HA_DSN to another server.",
        )
