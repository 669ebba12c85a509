"""A pgbouncer in transaction mode between the product and a test's server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final, Self

import psycopg

from tests.servers import USER, ThrowAwayServer
from tests.waiting import wait_for

POOLER_VARIABLE: Final = "PGCRON_HA_TEST_POOLER"
"""Names the program; set by the matrix."""

STATEMENTS_VARIABLE: Final = "PGCRON_HA_TEST_POOLER_STATEMENTS"
"""How many prepared statements it keeps track of in a session; 0 is none. Old ones know nothing
else.
"""

# A unix socket's number beside the server's own in the same folder.
_PORT: Final = 6432
_SERVER_PORT: Final = 5432
SESSIONS: Final = 6
"""Few for many clients, so that they really change hands."""

_SECONDS: Final = 20.0

_CONFIGURATION: Final = """
[databases]
* = host={folder} port={server_port}
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = {port}
pool_mode = transaction
auth_type = trust
auth_file = {users}
max_client_conn = 500
default_pool_size = {sessions}
server_idle_timeout = 5
{more}
"""
_FIRST_TRACKING: Final = (1, 21)


class Pooler:
    """A running one; gone with `close()`."""

    def __init__(self, program: Path, server: ThrowAwayServer) -> None:
        self._program = program
        self._folder = server.folder
        self._owner = server.owner
        self._server_port = server.port
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, dsn: str) -> str:
        """The DSN of the same database through it."""
        return dsn.replace(f"port={self._server_port}", f"port={_PORT}")

    def can_track(self) -> bool:
        """Whether it is new enough to keep track of prepared statements."""
        reported = subprocess.run([self._program, "--version"], capture_output=True, text=True)
        found = re.search(r"PgBouncer (\d+)\.(\d+)", reported.stdout)
        assert found, reported
        return tuple(map(int, found.groups())) >= _FIRST_TRACKING

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_SECONDS)

    def __enter__(self) -> Self:
        users = self._folder / "pooler_users"
        users.write_text(f'"{USER}" ""\n')
        settings = self._folder / "pooler.ini"
        settings.write_text(
            _CONFIGURATION.format(
                folder=self._folder,
                server_port=self._server_port,
                port=_PORT,
                users=users,
                sessions=SESSIONS,
                more=f"max_prepared_statements = {statements()}" if self.can_track() else "",
            )
        )
        with (self._folder / "pooler.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._owner,
            )
        wait_for("the pooler answers", self._answers, deadline=_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self) -> bool:
        assert self._process is not None
        log = self._folder / "pooler.log"
        assert self._process.poll() is None, log.read_text(errors="replace")[-800:]
        try:
            psycopg.connect(
                f"postgresql://{USER}@/postgres?host={self._folder}&port={_PORT}"
            ).close()
        except psycopg.OperationalError:
            return False
        return True


def statements() -> int:
    """How many prepared statements the environment wants it to keep track of."""
    return int(os.environ.get(STATEMENTS_VARIABLE) or 0)


def straight(dsn: str) -> str:
    """The DSN of the same database at the server itself."""
    return dsn.replace(f"port={_PORT}", f"port={_SERVER_PORT}")
