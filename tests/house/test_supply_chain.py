"""What the product is made of is named, and comes in one version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.golden import record
from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / ".docker" / "Dockerfile"


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, "-m", "tests.house.sbom"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=COMMAND_SECONDS
    ).stdout


@pytest.fixture(scope="module")
def bill(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed)
    return found


def pinned(lock: str) -> set[tuple[str, str]]:
    """Names and versions as the locked file has them, read without the script's own parser."""
    text = (ROOT / ".requirements" / f"{lock}.txt").read_text()
    pins = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE))
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pins}


def test_the_bill_of_materials_names_each_locked_package_and_version_and_no_other(
    bill: dict[str, Any],
) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = {(each["name"], each["version"]) for each in bill["components"]}
    shipped = {
        (each["name"], each["version"])
        for each in bill["components"]
        if each["scope"] == "required"
    }

    assert named == pinned("runtime") | pinned("build") | pinned("dev")
    assert shipped == pinned("runtime")
    assert len(named) == len(bill["components"])


def test_the_bill_of_materials_has_the_hashes_that_installing_asks_for(
    bill: dict[str, Any],
) -> None:
    locked = (ROOT / ".requirements" / "runtime.txt").read_text()
    hashes = {
        each["content"]
        for component in bill["components"]
        if component["scope"] == "required"
        for each in component["hashes"]
    }

    assert hashes == set(re.findall(r"--hash=sha256:([0-9a-f]{64})", locked))


def test_the_bill_of_materials_is_the_same_each_time(printed: str) -> None:
    again = subprocess.run(
        [sys.executable, "-m", "tests.house.sbom"], cwd=ROOT, capture_output=True, text=True
    )

    assert again.stdout == printed


# PostgreSQL's releases have two numbers, those of all others three.
EXACT = re.compile(r"(postgres:\d+\.\d+|[a-z/]+:\d+\.\d+\.\d+)(-[a-z]+)*(@sha256:[0-9a-f]{64})?")


def test_each_base_image_is_one_version() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    services = YAML(typ="safe").load(COMPOSE.read_text())["services"].values()
    bases += [each["image"] for each in services if "build" not in each]

    assert {each.partition(":")[0] for each in bases} == {"python", "postgres"}
    assert [each for each in bases if not EXACT.fullmatch(each)] == []


@pytest.mark.parametrize("floating", ["python:3.13-slim", "postgres:18", "python", "python:latest"])
def test_a_tag_that_moves_would_be_found(floating: str) -> None:
    assert not EXACT.fullmatch(floating)


THREATS = ROOT / "docs" / "explanation" / "threat-model.md"


def test_each_promise_of_the_threat_model_names_tests_that_exist() -> None:
    rows = [line for line in THREATS.read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]

    assert len(promises) > 30
    shown = re.compile(r"\| `test_\w+`(, `test_\w+`)* \|$")
    assert [row for row in promises if not shown.search(row)] == []
    named = set(re.findall(r"`(test_\w+)`", THREATS.read_text()))
    assert named - record.test_names() == set()


def test_holes_are_reported_privately_and_the_threat_model_is_found() -> None:
    policy = (ROOT / "SECURITY.md").read_text()

    for heading in ("## Report a hole", "## Versions", "## In scope"):
        assert heading in policy
    assert THREATS.relative_to(ROOT).as_posix() in policy
