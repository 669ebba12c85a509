from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS

SKIP = "pytest." + "skip"


@pytest.mark.long
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_skipped_test_fails_the_session_and_says_why(tmp_path: Path, processes: str) -> None:
    test = f"import pytest\ndef test_absent():\n    {SKIP}('no such server')\n"
    module = f"import pytest\n{SKIP}('no such library', allow_module_level=True)\n"
    (tmp_path / "test_one.py").write_text(test)
    (tmp_path / "test_two.py").write_text(module)

    run = run_pytest(tmp_path, processes)

    assert run.returncode == 1, run.stdout
    assert "skipped tests fail this run" in run.stdout
    assert "test_one.py::test_absent: Skipped: no such server" in run.stdout
    assert "test_two.py: Skipped: no such library" in run.stdout


def test_a_session_without_skips_passes(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_fine():\n    pass\n")

    run = run_pytest(tmp_path, "0")

    assert run.returncode == 0, run.stdout
    assert "skipped" not in run.stdout


def run_pytest(folder: Path, processes: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    # The plugin and the one it must work with, nothing else: the session starts at once.
    plugins = ["-p", "tests.house.no_skips", "-p", "xdist", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-n", processes, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
