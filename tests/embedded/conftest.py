"""Folders and processes that are gone after the test, whatever happened in it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.embedded import EmbeddedPostgres
from tests.embedded.processes import Owner, running, wait_until_down

# What only root can do is not collected for anybody else.
collect_ignore = [] if os.geteuid() == 0 else ["test_embedded_as_root.py"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path that every user may enter; servers in it are stopped after.

    In memory, unless programs may not be executed there: some tests copy them.
    """
    memory = "/dev/shm"
    is_fit = os.access(memory, os.W_OK) and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    root = memory if is_fit else None
    path = Path(tempfile.mkdtemp(prefix="pgcron-e-", dir=root)).resolve()
    path.chmod(0o755)
    yield path
    for pid_file in path.rglob("postmaster.pid"):
        folder = pid_file.parents[1]
        if found := running(folder):
            with suppress(ProcessLookupError):  # it ends by itself just now
                os.kill(found.pid, signal.SIGQUIT)
            wait_until_down(folder)
    shutil.rmtree(path)


@pytest.fixture
def folder(place: Path) -> Path:
    """A path for a server's folder that is not there yet."""
    return place / "data"


@pytest.fixture
def embedded(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A handle on a fresh folder; not up."""
    handle = EmbeddedPostgres(folder)
    yield handle
    handle.down()


@pytest.fixture
def start_owner(folder: Path) -> Iterator[Callable[..., Owner]]:
    """Starts processes that use the folder; they are killed after the test."""
    owners: list[Owner] = []

    def start(**how: Any) -> Owner:
        owners.append(Owner(folder, **how))
        return owners[-1]

    yield start
    for owner in owners:
        owner.kill9()
