"""What a command does when nobody can take what it prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import COMMAND_SECONDS


@pytest.mark.parametrize(
    "command",
    [
        *("next '0 3 * * *'", "docs", "completion bash", "status", "status --json"),
        *("schedules list", "nodes list", "--help", "schedules --help", "--version"),
    ],
)
def test_an_output_that_can_not_be_written_is_not_the_database(
    database: str, tmp_path: Path, command: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "pgcron_ha", *shlex.split(command)],
            cwd=tmp_path,
            env={**os.environ, "PGCRON_HA_DSN": database},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=COMMAND_SECONDS,
        )

    assert answer.returncode == 1
    assert answer.stderr.count("the output can't be written") == 1
    assert "No space left on device" in answer.stderr
    assert "database" not in answer.stderr
    assert "Traceback" not in answer.stderr
