"""A PostgreSQL server for tests: made in a second, killed without regret.

Unlike the embedded server, postgres is a child of the test: after a ``kill -9`` it is reaped at
once, and the test alone decides when it starts and stops.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, LiteralString, Self

import psycopg
from psycopg import sql

from pgcron_ha.embedded import Binaries, find_binaries
from tests.product.embedded import DataDirectory, FileLock, find_postmaster, readable_binaries
from tests.sessions import USUAL
from tests.waiting import COMMAND_SECONDS, wait_for

USER, PASSWORD = "postgres", "throw-away"

_NAME = "pgcron-tests-"
_MEMORY = Path("/dev/shm")

# The data of a throw-away server are worth nothing when the machine goes down.
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_SETTINGS = {"max_connections": "200", "timezone": "UTC", "log_timezone": "UTC"}

SETTINGS_VARIABLE = "PGCRON_HA_TEST_SETTINGS"
"""Settings of every server of the tests as a JSON object; as production has them."""

_STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0

# What the server says while the backends of a killed one, or its port, are still in use.
_PASSING_REASONS = ("still in use", "already exists", "Address already in use")


class ThrowAwayServer:
    """One server in a folder of its own, gone with `close()`.

    `durable` keeps fsync on and the data on a disk, for tests of crashes. `tcp` lets it listen on
    127.0.0.1 too, at a port that stays the same over restarts; there the password is checked.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        tcp: bool = False,
        binaries: Binaries | None = None,
        settings: dict[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.environment = environment or {}
        self.settings = {
            **_SETTINGS,
            **_wanted(),
            **({} if durable else _CARELESS),
            **(settings or {}),
        }
        self.port = free_port() if tcp else 5432
        self._listens = tcp
        self.folder, self._lock = _make_folder(durable=durable)
        self.log = self.folder / "server.log"
        self.pgdata = self.folder / "pgdata"
        self._identity = DataDirectory(self.folder).identity
        if self._identity.changes_user:
            os.chown(self.folder, self._identity.uid, self._identity.gid)
        given = binaries or find_binaries()
        self.binaries = readable_binaries(DataDirectory(self.folder), given)
        self._process: subprocess.Popen[bytes] | None = None
        self._execute_connected: Callable[[sql.Composed], object] | None = None

    def start(self) -> Self:
        """Start it, and make it before that if need be; returns when it takes connections."""
        if not self.pgdata.exists():
            self._initialise()
        wait_for(f"{self.folder} is up", self._try_to_start, deadline=_START_SECONDS)
        return self

    def follow(self, primary: ThrowAwayServer) -> Self:
        """Start it as a standby of another one."""
        command: list[str | Path] = [
            self.binaries.tool("pg_basebackup"),
            *("-h", primary.folder, "-p", str(primary.port), "-U", USER, "-D", self.pgdata),
            *("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"),
        ]
        environment = self.binaries.environment()
        subprocess.run(
            command,
            cwd="/",
            env=environment,
            check=True,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            **self.owner,
        )
        return self.start()

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it as `pg_ctl stop -m` would; returns when it is gone."""
        if self._process is not None:
            self._process.send_signal(_STOP_SIGNALS[how])
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def kill9(self) -> None:
        """Kill the postmaster as the kernel does when memory is short; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def close(self) -> None:
        """Stop it and remove everything."""
        try:
            self.stop("immediate")
        finally:
            self.kill9()
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.release()

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._process is not None, "the server is not started"
        return self._process.pid

    def dsn(self, database: str = "postgres") -> str:
        """A superuser's DSN through the unix socket; any password will do there."""
        return f"postgresql://{USER}:{PASSWORD}@/{database}?host={self.folder}&port={self.port}"

    def tcp_dsn(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        """A superuser's DSN by host and port; only for a server made with `tcp`."""
        assert self._listens, "the server was made without tcp=True"
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: LiteralString | sql.Composed, database: str = "postgres") -> None:
        """Execute one statement in a connection of its own, outside a transaction."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            connection.execute(USUAL)
            connection.execute(statement)

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, empty or as a copy; returns its DSN."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            # Half the time of copying through the log when fsync is off; 14 knows no other way.
            if self.binaries.major >= 15:
                statement += sql.SQL(" STRATEGY file_copy")
        (self._execute_connected or self.execute)(statement)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and whoever is connected to it."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        (self._execute_connected or self.execute)(statement)

    @contextmanager
    def staying_connected(self) -> Iterator[Self]:
        """Make and drop databases in one connection: thousands of tests have one each, and to
        connect for it costs a fifth of that.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(USUAL + "; SET idle_session_timeout = 0")
            self._execute_connected = connection.execute
            try:
                yield self
            finally:
                self._execute_connected = None

    @property
    def owner(self) -> dict[str, Any]:
        """The options with which `subprocess` runs a program as the user whose folder this is."""
        return self._identity.options

    def seal_template(self, name: str) -> None:
        """Let nobody connect to a database any more: only such a one can always be copied."""
        identifier = sql.Identifier(name)
        self.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(identifier))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _initialise(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(PASSWORD)
        if self._identity.changes_user:
            os.chown(password_file, self._identity.uid, self._identity.gid)
        command: list[str | Path] = [
            self.binaries.tool("initdb"),
            *("-D", self.pgdata, "-U", USER, "--pwfile", password_file, "-E", "UTF8"),
            *("--auth-local=trust", "--auth-host=scram-sha-256", "--locale=C", "--no-sync"),
        ]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            cwd="/",
            env=self.binaries.environment(),
            timeout=_START_SECONDS,
            **self.owner,
        )

    def _try_to_start(self) -> bool:
        if self._process is None:
            self._spawn()
        assert self._process is not None
        if self._process.poll() is None:
            found = find_postmaster(self.pgdata)
            return found is not None and found.pid == self._process.pid and found.is_ready
        self._process = None
        reason = self.log.read_text(errors="replace")[-800:]
        assert any(passing in reason for passing in _PASSING_REASONS), reason
        return False

    def _spawn(self) -> None:
        options = [f"--{name}={value}" for name, value in self.settings.items()]
        command: list[str | Path] = [
            self.binaries.tool("postgres"),
            *("-D", self.pgdata, "-k", self.folder, "-p", str(self.port)),
            *("-h", "127.0.0.1" if self._listens else ""),
            *options,
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.binaries.environment() | self.environment,
                # A Ctrl-C at the tests is not for the server: it is stopped after them.
                start_new_session=True,
                **self.owner,
            )


def remove_leftovers() -> None:
    """Stop and remove the servers of test runs that were killed."""
    for root in {_root(durable=True), _root(durable=False)}:
        for folder in root.glob(f"{_NAME}*"):
            lock = FileLock(folder / "owner.lock")
            try:
                if lock.try_acquire():
                    _remove(folder)
            except OSError:
                pass  # another user's, or removed by another worker at this moment
            finally:
                lock.release()


def _remove(folder: Path) -> None:
    if found := find_postmaster(folder / "pgdata"):
        # Not SIGKILL, after which its shared memory would stay for ever.
        os.kill(found.pid, signal.SIGQUIT)
        wait_for(f"{folder} is down", lambda: find_postmaster(folder / "pgdata") is None)
    shutil.rmtree(folder, ignore_errors=True)


def _make_folder(*, durable: bool) -> tuple[Path, FileLock]:
    """A new folder and the lock that says somebody uses it."""
    root = _root(durable=durable)
    # Under another name until it is locked, or `remove_leftovers` of another worker would take it.
    unlocked = Path(tempfile.mkdtemp(prefix=f"new-{_NAME}", dir=root))
    lock = FileLock(unlocked / "owner.lock")
    assert lock.try_acquire()
    return unlocked.rename(root / unlocked.name.removeprefix("new-")), lock


def _root(*, durable: bool) -> Path:
    on_disk = Path(tempfile.gettempdir()).resolve()
    if durable or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return on_disk
    # Root's server is another user's, which may need a copy of the programs there.
    may_execute = os.geteuid() != 0 or not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    return _MEMORY if may_execute else on_disk


def _wanted() -> dict[str, str]:
    wanted: dict[str, str] = json.loads(os.environ.get(SETTINGS_VARIABLE) or "{}")
    return wanted


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
