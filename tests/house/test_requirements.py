from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.checkout import ROOT

LOCKS = ["runtime", "dev", "build"]
SERVERS = [f"postgresql/{lock.stem}" for lock in (ROOT / ".requirements/postgresql").glob("*.txt")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def text(lock: str) -> str:
    return (ROOT / ".requirements" / f"{lock}.txt").read_text()


def locked(lock: str) -> dict[str, list[Requirement]]:
    """The locked requirements by name; a name stands twice when platforms need other versions."""
    found: dict[str, list[Requirement]] = {}
    for line in re.sub(r"\\\n", " ", text(lock)).splitlines():
        requirement = Requirement(line.partition("--hash")[0].strip())
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.mark.parametrize("lock", [*LOCKS, *SERVERS])
def test_every_locked_line_has_one_version_and_a_hash(lock: str) -> None:
    for line in re.sub(r"\\\n", " ", text(lock)).splitlines():
        assert re.match(r"[\w.\[\],-]+==[\w.+!-]+( ;[^\\]+)?\s", line), line
        assert re.search(r" --hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("lock", [*LOCKS, *SERVERS])
def test_a_lock_names_no_place_to_fetch_from(lock: str) -> None:
    assert re.findall(r"https?:|file:|--(?:extra-)?index-url|--find-links|@ ", text(lock)) == []


@pytest.mark.parametrize(
    ("lock", "extras"), [("runtime", ["embedded", "auth"]), ("dev", ["embedded", "auth", "dev"])]
)
def test_a_lock_is_in_step_with_the_project(lock: str, extras: list[str]) -> None:
    wanted = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        wanted += PROJECT["project"]["optional-dependencies"][extra]
    found = locked(lock)

    for requirement in map(Requirement, wanted):
        versions = found.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement.name} is not locked: make lock"
        for version in versions:
            (pin,) = version.specifier
            assert requirement.specifier.contains(pin.version), f"{version}: make lock"


def test_the_build_lock_has_the_build_backend() -> None:
    for requirement in map(Requirement, PROJECT["build-system"]["requires"]):
        (version,) = locked("build")[canonicalize_name(requirement.name)]
        (pin,) = version.specifier
        assert requirement.specifier.contains(pin.version)


@pytest.mark.parametrize("lock", ["runtime", "build"])
def test_all_locks_agree_so_that_they_fit_in_one_environment(lock: str) -> None:
    versions = {name: sorted(map(str, found)) for name, found in locked("dev").items()}
    shared = {
        name: sorted(map(str, found)) for name, found in locked(lock).items() if name in versions
    }

    assert shared
    assert {name: versions[name] for name in shared} == shared
