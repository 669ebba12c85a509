"""The command line in this process, on the test's own database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from tests.product.cli import main
from tests.sessions import USUAL


@dataclass(frozen=True)
class Answer:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The JSON objects of stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Answer]
Execute = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def cli(
    database: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Cli:
    """Runs `pgcron-ha` with these arguments on the migrated database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGCRON_HA_DSN", database)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # a dev or demo that runs is not found

    def call(*arguments: object, dsn: str | None = None) -> Answer:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            if dsn is not None:
                patch.setenv("PGCRON_HA_DSN", dsn)
            code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def execute(database: str) -> Execute:
    """Executes one statement by plain SQL; its rows, if it has any."""

    def call(statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(database) as connection:
            connection.execute(USUAL)
            connection.commit()
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    return call


@pytest.fixture
def role(database: str, execute: Execute) -> Iterator[str]:
    """A role of this test's own that may log in and nothing else."""
    name = f"Role of {urlsplit(database).path.removeprefix('/')}"
    execute(f'CREATE ROLE "{name}" LOGIN')
    yield name
    execute(f'DROP OWNED BY "{name}"')
    execute(f'DROP ROLE "{name}"')


def dsn_of(role: str, database: str) -> str:
    """The database's DSN for another role; the socket asks for no password."""
    parts = urlsplit(database)
    return parts._replace(netloc=f"{quote(role)}@").geturl()
