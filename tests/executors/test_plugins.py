"""Executors of other packages: found, refused, used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import ExecutorServices, Failed, Succeeded
from tests.executors.distribution import install, install_the_documented_one
from tests.executors.running import Record, context
from tests.product.executors import load_plugin

TRIVIAL = """
class Trivial:
    kind = {kind!r}
    def __init__(self, tables, executor_services): pass
    def handlers(self): return frozenset({handlers!r})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages are installed during the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def executor_services(record: Record) -> ExecutorServices:
    return record.services(16)


def refusal(kind: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_plugin(kind, {}, executor_services(Record()))
    return caught.value


async def test_the_documented_executor_works(folder: Path) -> None:
    install_the_documented_one(folder)
    record = Record()
    running = load_plugin("touch", {"here": {"directory": str(folder)}}, executor_services(record))
    good, bad = context(1, "touch:here", {"name": "a"}), context(2, "touch:here", {"name": "../b"})
    try:
        running.start([good, bad])
        outcomes = [record.outcome(good), record.outcome(bad)]
    finally:
        await running.close(5)

    assert outcomes[0] == Succeeded({"made": "a"}, '{"made":"a"}')
    assert isinstance(outcomes[1], Failed)
    assert not outcomes[1].retry
    assert (folder / "a").exists()
    assert record.lines_of(good) == ["made a"]
    with pytest.raises(ConfigError, match="must have a directory"):
        load_plugin("touch", {"here": {}}, executor_services(record))


def test_a_kind_that_nobody_has_is_refused_and_those_there_are_named(folder: Path) -> None:
    install_the_documented_one(folder)
    error = refusal("ftp")
    assert error.message == "no installed package executes handlers of the kind 'ftp'"
    assert "here are: touch" in str(error.detail)


@pytest.mark.parametrize("kind", ["py", "shell", "http", "sql"])
def test_a_built_in_kind_is_nobody_elses(folder: Path, kind: str) -> None:
    install(folder, "thief", kind, "thief:Trivial", TRIVIAL.format(kind=kind, handlers=set()))
    assert refusal(kind).message == f"the executor {kind!r} is built in"


def test_two_packages_with_one_kind_are_refused(folder: Path) -> None:
    for name in ("one", "two"):
        install(folder, name, "ftp", f"{name}:Trivial", TRIVIAL.format(kind="ftp", handlers=set()))
    error = refusal("ftp")
    assert error.message == "2 packages execute handlers of the kind 'ftp'"
    assert {"one 1.0: one:Trivial", "two 1.0: two:Trivial"} == set(str(error.detail).splitlines())


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise RuntimeError('half installed')", "RuntimeError: half installed"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
        ("x = 1", "AttributeError: module 'broken"),
        ("Trivial = 5", "TypeError: 'int' object is not callable"),
        ("def Trivial(tables, executor_services): return None", "AttributeError: 'NoneType'"),
        (TRIVIAL.format(kind="other", handlers=set()), "it says that its kind is 'other'"),
        (TRIVIAL.format(kind="ftp", handlers={"shell:x"}), "it offers 'shell:x'"),
        (TRIVIAL.format(kind="ftp", handlers={"ftp:"}), "it offers 'ftp:'"),
        (TRIVIAL.format(kind="ftp", handlers={"ftp:a b"}), "it offers 'ftp:a b'"),
    ],
)
def test_a_broken_package_is_named_with_the_reason(
    folder: Path, source: str, why: str, request: pytest.FixtureRequest
) -> None:
    # A module of its own for each case: the interpreter keeps those it has.
    name = f"broken{abs(hash(request.node.name))}"
    install(folder, name, "ftp", f"{name}:Trivial", source)
    error = refusal("ftp")
    assert error.message == f"the executor 'ftp' of {name} 1.0 can't be used"
    assert str(error.detail).startswith(why)
    assert f"{name}:Trivial" in str(error.hint)


def test_a_handler_has_a_name_of_at_most_206_characters(folder: Path) -> None:
    handlers = {"warehouse:" + 197 * "a"}
    source = TRIVIAL.format(kind="warehouse", handlers=handlers)
    install(folder, "lengthy", "warehouse", "lengthy:Trivial", source)
    assert str(refusal("warehouse").detail).startswith("it offers 'warehouse:aaa")
