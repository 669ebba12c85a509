from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_wheel_has_the_files_of_the_checkout_and_no_others(wheel: set[str]) -> None:
    expected = {f"pgcron_ha/{name}" for name in _files("pgcron_ha")}
    expected |= {f"pgcron_ha/docs/{name}" for name in _files("docs")}
    expected |= {f"pgcron_ha/migrations/{name}" for name in _files("migrations")}
    expected |= {f"pgcron_ha/web/{name}" for name in _files("web")}

    assert {name for name in wheel if ".dist-info/" not in name} == expected


def test_the_wheel_has_one_package_and_the_licence(wheel: set[str]) -> None:
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"pgcron_ha"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)


def test_alembic_finds_the_revisions_in_what_was_installed(built: Path, tmp_path: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    text = (ROOT / "docs" / "how-to" / "alembic.md").read_text(encoding="utf-8")
    written = text[text.rindex("[alembic]\n") :].partition("```")[0]
    (tmp_path / "alembic.ini").write_text(written)
    (tmp_path / "migrations" / "versions").mkdir(parents=True)

    answer = subprocess.run(
        [sys.executable, "-m", "alembic", "heads", "--verbose"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=COMMAND_SECONDS,
    )

    assert f"Path: {tmp_path}/pgcron_ha/migrations/versions/" in answer.stdout, answer.stderr
    assert "Branch names: pgcron_ha" in answer.stdout


def test_migrations_are_data_and_no_package(wheel: set[str]) -> None:
    # An __init__.py there would make a second `migrations` to import.
    assert not (ROOT / "migrations" / "__init__.py").exists()
    assert not (ROOT / "pgcron_ha" / "migrations").exists()
    assert "pgcron_ha/migrations/env.py" in wheel


def test_pages_and_static_files_are_data_and_no_package(wheel: set[str]) -> None:
    assert list((ROOT / "web").rglob("*.py")) == []
    assert "pgcron_ha/web/templates/base.html" in wheel
    assert "pgcron_ha/web/static/app.css" in wheel


def test_the_sdist_can_run_its_own_tests(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    needed = {"Makefile", "pyproject.toml", ".ci/environment", ".requirements/dev.txt"}
    assert needed | {"tests/house/no_skips.py", "docker-compose.yml"} <= names


def _files(folder: str) -> set[str]:
    root = ROOT / folder
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
