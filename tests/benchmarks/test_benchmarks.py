"""The benchmarks run and print their figures; no test judges a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.figures import Result, percentile, table
from tests.waiting import COMMAND_SECONDS

_ROOT = Path(__file__).resolve().parents[2]
_QUICK = "fire_times"
_OF_RUNS = "idle,pickup,pickup_gates,enqueue,enqueue_bulk,drain,delivery,hourly,first_run"
_OF_SCHEDULES = "backlog,held_horizon,same_second,every_second,every_minute_allow,every_minute_skip"
_OF_POLICIES = "each_minute,edit,outage,crash"
_OF_FEATURES = "features,limits,workflows"
_OF_PAGES = "pages,retention"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )


@pytest.mark.long
def test_benchmarks_print_their_figures_and_keep_them(tmp_path: Path) -> None:
    _try(_QUICK, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("group", [_OF_RUNS, _OF_SCHEDULES, _OF_POLICIES, _OF_FEATURES, _OF_PAGES])
def test_all_other_benchmarks_print_theirs(group: str, tmp_path: Path) -> None:
    _try(group, tmp_path)


def test_every_benchmark_is_tried_here() -> None:
    tried = ",".join(
        (_QUICK, _OF_RUNS, _OF_SCHEDULES, _OF_POLICIES, _OF_FEATURES, _OF_PAGES)
    ).split(",")

    assert sorted(tried) == sorted(BENCHMARKS)


def _try(group: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    finished = _run("tests.benchmarks", "--tiny", "--json", str(file), "--only", group)

    assert finished.returncode == 0, finished.stderr
    kept = json.loads(file.read_text())
    assert kept["server"]["fsync"] == kept["server"]["synchronous_commit"] == "on"
    assert {"at", "machine", "python", "asyncpg", "uvloop", "node", "bare loop"} <= set(kept)
    assert [each["name"] for each in kept["benchmarks"]] == group.split(",")
    for result in kept["benchmarks"]:
        _look_at(result, finished.stdout)


def _look_at(result: dict[str, Any], printed: str) -> None:
    assert f"{result['name']}: " in printed
    assert result["baseline"] in printed
    assert result["sizes"]
    assert result["load_after"] > 0
    assert any(figure["baseline"] is not None for figure in result["figures"])
    for figure in result["figures"]:
        assert figure["name"] in printed
        # A difference of two CPU times may be negative: it can be smaller than their noise.
        is_difference = ": more " in figure["name"]
        assert figure["value"] is None or figure["value"] >= 0 or is_difference


def test_a_benchmark_that_does_not_exist_is_named() -> None:
    finished = _run("tests.benchmarks", "--only", "drain,speed")

    assert finished.returncode == 2
    assert "no benchmark is called speed" in finished.stderr


@pytest.mark.long
def test_the_drain_alone_prints_its_rounds() -> None:
    finished = _run("tests.benchmarks.drain", "--runs=500", "--rounds=1", "--json")

    assert finished.returncode == 0, finished.stderr
    printed = json.loads(finished.stdout)
    rounds = printed["details"]["rounds"]
    assert len(rounds) == 1
    for each in rounds:
        for drain in (each["bare"], each["node"]):
            assert drain["runs"] == 500
            assert drain["seconds"] > 0
            assert drain["server_cpu"] >= 0
            assert drain["peak_memory"] > 0
    assert printed["figures"][0]["value"] > 0
    assert "ratio" in finished.stderr


def test_a_figure_stands_beside_its_baseline() -> None:
    result = Result("example", "nothing", {"rows": 1})
    result.add("rate", 1500.0, "rows/s", 2000.0, "≥ 0.5")
    result.add("unseen", None, "µs")

    assert [figure.ratio for figure in result.figures] == [0.75, None]
    assert "  rate    1,500     2,000   0.75  rows/s  ≥ 0.5" in table(result)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]

    assert percentile(values, 0.5) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile([], 0.5) is None
