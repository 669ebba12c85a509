"""What is relied on changes only on purpose.

``GOLDEN=write make test ARGS=tests/golden`` records it anew.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path

import click

from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli  # a fixture
from tests.e2e.conftest import cluster as cluster  # a fixture
from tests.e2e.nodes import Cluster
from tests.golden import record
from tests.golden.scenario import Scenario, metrics
from tests.house.checkout import ROOT


def check(name: str, lines: Iterable[str]) -> None:
    """Compare with the file of that name, or write it."""
    file = record.FOLDER / name
    text = "\n".join(lines) + "\n"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def test_the_sql_contract_is_the_recorded_one(database: str) -> None:
    check("contract.txt", record.contract(database))


def test_the_help_of_each_command_is_the_recorded_one() -> None:
    check("help.txt", record.command_help())


def test_settings_routes_and_codes_are_the_recorded_ones() -> None:
    check("addresses.txt", record.addresses())


def test_what_commands_print_as_json_has_the_recorded_keys(
    cluster: Cluster, cli: Cli, tmp_path: Path
) -> None:
    scenario = Scenario(cluster, cli, tmp_path)

    scenario.play()

    printing = {
        " ".join(words[1:])
        for words, command in record.commands()
        if any("--json" in each.opts for each in command.params if isinstance(each, click.Option))
    }
    assert printing == set(scenario.keys)
    check("json.txt", scenario.lines())


def test_the_metrics_are_the_recorded_ones(cluster: Cluster) -> None:
    check("metrics.txt", metrics(cluster))


def test_each_promise_of_the_documents_has_a_test() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    documents = " ".join(" ".join(page.read_text().split()) for page in pages)
    promises = tomllib.loads((record.FOLDER / "promises.toml").read_text())["promise"]

    assert [each["says"] for each in promises if each["says"] not in documents] == []
    assert {name for each in promises for name in each["tests"]} - record.test_names() == set()


def test_no_test_is_lost() -> None:
    """`tests_gone.txt` says of each test that went why, or which one is there instead."""
    lost = dict(
        line.split(": ", 1) for line in (record.FOLDER / "tests_gone.txt").read_text().splitlines()
    )
    recorded = set((record.FOLDER / "tests.txt").read_text().split())

    assert recorded - record.test_names() - set(lost) == set()
    assert set(lost) <= recorded
