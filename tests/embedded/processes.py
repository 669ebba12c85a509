"""Real processes that use an embedded server, and looks at the ones that make it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from pgcron_ha.embedded import EmbeddedPostgres
from tests.product.embedded import Postmaster, find_postmaster
from tests.waiting import wait_for

PROGRAM = Path(__file__).with_name("owner.py")
CHECKOUT = Path(__file__).parents[2]

_END_SECONDS = 30.0


class Owner:
    """A process that called `up()` on a folder, or is about to."""

    def __init__(
        self,
        folder: Path,
        *,
        python: Sequence[str] = (sys.executable, str(PROGRAM)),
        environment: Mapping[str, str] | None = None,
        **how: Any,
    ) -> None:
        self._server: dict[str, Any] | None = None
        self.process = subprocess.Popen(
            [*python, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **(environment or {})},
            **how,
        )

    @property
    def server(self) -> dict[str, Any]:
        """Its first answer: `postmaster`, `dsn` and `uid`, or an error's sentences."""
        if self._server is None:
            self._server = self._answer()
        return self._server

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.server  # noqa: B018 (the first answer must be out of the way)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill9(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let it exit without a word, as a program does that forgot about the server."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(_END_SECONDS)
        self.process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the owner ended with code {self.process.wait(_END_SECONDS)}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def running(server: EmbeddedPostgres | Path) -> Postmaster | None:
    path = server if isinstance(server, Path) else server.directory.path
    return find_postmaster(path / "pgdata")


def wait_until_down(server: EmbeddedPostgres | Path) -> None:
    wait_for("the server has stopped", lambda: running(server) is None)


def was_shut_down_cleanly(server: EmbeddedPostgres) -> bool:
    log = server.directory.log.read_text()
    return log.rstrip().endswith("database system is shut down")


def parent_of(pid: int) -> int:
    """The keeper, when the pid is a postmaster's."""
    answer = subprocess.run(
        ["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


def user_of(pid: int) -> int:
    answer = subprocess.run(
        ["ps", "-o", "uid=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


def write_row(dsn: str, text: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (what text)")
        connection.execute("INSERT INTO kept VALUES (%s)", (text,))


def rows(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM kept ORDER BY what")]


def shows(dsn: str, setting: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
    assert row is not None
    return str(row[0])
