"""The version after this one, and databases as it leaves them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.nodes import Cluster
from tests.product.db import statements
from tests.upgrade.later import make

Pgcron = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the version after this one, as installed."""
    return make(tmp_path_factory.mktemp("later"))


@pytest.fixture
def pgcron(database: str, later: Path, tmp_path: Path) -> Pgcron:
    """The command line of the version after this one, on a database of this one."""
    folder = tmp_path / "commands"
    folder.mkdir()
    cluster = Cluster(database, folder)
    cluster.package = later

    def call(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        answer = cluster.command(*words)
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer

    return call


@pytest.fixture
def later_statements(later: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process sends the statements of the version after this one."""
    kept = (statements.load, statements.every_variant, statements.varying)
    with monkeypatch.context() as patched:
        patched.setattr(statements, "_FOLDER", later / "pgcron_ha/db/sql")
        for each in kept:
            each.cache_clear()
        yield
    for each in kept:
        each.cache_clear()
