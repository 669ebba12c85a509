"""The benchmarks run and print their figures; no test judges a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def test_the_drain_prints_its_figures_beside_its_baseline() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.drain", "--runs=500", "--rounds=2", "--json"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )

    assert finished.returncode == 0, finished.stderr
    printed = json.loads(finished.stdout)
    assert printed["server"]["fsync"] == printed["server"]["synchronous_commit"] == "on"
    assert len(printed["rounds"]) == 2
    for each in printed["rounds"]:
        for drain in (each["bare"], each["node"]):
            assert drain["runs"] == 500
            assert drain["seconds"] > 0
            assert drain["worker_cpu"] >= 0
            assert drain["server_cpu"] >= 0
        assert each["node"]["peak_memory"] > 0
    assert printed["median"]["ratio"] > 0
    assert "ratio" in finished.stderr
