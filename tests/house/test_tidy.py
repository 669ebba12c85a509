from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.house.checkout import ROOT, files, name

CODE = ("pgcron_ha", "migrations")
EVERYTHING = (*CODE, "tests")

MAX_LINES_OF_A_FILE = 400
MAX_LINES_OF_A_TEST_FILE = 600
MAX_COLUMNS = 100
MAX_LINES_OF_A_FUNCTION = 70

TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "docker-compose.yml",
    "docs",
    "migrations",
    "pgcron_ha",
    "pyproject.toml",
    "tests",
    "web",
}
# What a build or a run leaves in a checkout; .gitignore knows them too.
LEFT_BEHIND = {"build", "dist", "pgcron-ha.toml"}

# Such a module is named after nothing, so everything ends up in it.
NAMELESS_MODULES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "shared"}
NAMELESS_CLASSES = re.compile(r"(Manager|Helper|Helpers|Util|Utils|Impl)$")
ABBREVIATIONS = {
    "arr",
    "buf",
    "cfg",
    "cnt",
    "idx",
    "mgr",
    "msg",
    "num",
    "ret",
    "stmt",
    "tmp",
    "txn",
}
# Written with a gap so that this file does not contain them.
UNFINISHED = [re.compile(rf"\b{word}\b") for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX")]

LOCK = re.compile(r"\bfor\s+(no\s+key\s+update|update|key\s+share|share)\b", re.IGNORECASE)
LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
BOUNDED = re.compile(r"(\bas\s+materialized|\barray)\s*$", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text_of(path))))


def broken_in(
    find: Callable[[Path], Iterable[object]], *suffixes: str, under: tuple[str, ...]
) -> dict[str, list[object]]:
    """What `find` finds in files with one of these suffixes, by file: those that break the rule."""
    paths = files(*suffixes, under=under)
    assert paths
    return {name(path): found for path in paths if (found := list(find(path)))}


def test_the_top_level_is_what_was_agreed() -> None:
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}

    assert found - LEFT_BEHIND - TOP_LEVEL == set()


def test_files_are_short_enough_to_be_read_at_once() -> None:
    def too_many_lines(path: Path) -> Iterator[int]:
        is_test = name(path).startswith("tests/")
        lines = text_of(path).count("\n")
        # The reviewed dump of the schema is written by pg_dump.
        if name(path) != "tests/db/schema.sql" and lines > (
            MAX_LINES_OF_A_TEST_FILE if is_test else MAX_LINES_OF_A_FILE
        ):
            yield lines

    assert broken_in(too_many_lines, ".py", ".sql", ".mako", under=EVERYTHING) == {}


def test_lines_of_sql_are_as_short_as_those_of_python() -> None:
    def too_long(path: Path) -> Iterator[int]:
        lines = text_of(path).splitlines()
        return (number for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS)

    assert broken_in(too_long, ".sql", under=CODE) == {}


def test_functions_are_short_and_names_are_words() -> None:
    def faults(path: Path) -> Iterator[str]:
        nodes = nodes_of(path)
        yield from {path.stem.lower(), path.parent.name.lower()} & NAMELESS_MODULES
        yield from ABBREVIATIONS & set(_names(nodes))
        for node in nodes:
            if isinstance(node, ast.ClassDef) and NAMELESS_CLASSES.search(node.name):
                yield node.name
            if isinstance(node, Function) and _length(node) > MAX_LINES_OF_A_FUNCTION:
                yield f"{node.name}: {_length(node)} lines"

    assert broken_in(faults, ".py", under=EVERYTHING) == {}


def test_nothing_is_left_for_later() -> None:
    def unfinished(path: Path) -> Iterator[str]:
        return (word.pattern for word in UNFINISHED if word.search(text_of(path)))

    suffixes = (".py", ".sql", ".toml", ".md", ".yml", ".mako")
    assert broken_in(unfinished, *suffixes, under=EVERYTHING) == {}


def test_no_test_sleeps_to_wait() -> None:
    """Waiting is `until` of tests/waiting.py; what runs do meanwhile stands in other files."""

    def sleeps(path: Path) -> Iterator[int]:
        if path.name.startswith("test_") or path.name == "conftest.py":
            for node in nodes_of(path):
                if isinstance(node, ast.Call) and _called(node) == "sleep" and not _is_yield(node):
                    yield node.lineno

    assert broken_in(sleeps, ".py", under=("tests",)) == {}


def test_no_test_is_skipped_or_mocked() -> None:
    # This sentence is about test files; the plugin that finds skips speaks of them.
    words = ("pytest." + "skip", "mark." + "skip", "mark." + "xfail", "unittest." + "mock")

    def skips(path: Path) -> Iterator[str]:
        return (word for word in words if word in text_of(path))

    assert broken_in(skips, ".py", under=("tests",)) == {}


def test_a_limit_that_locks_can_not_be_exceeded() -> None:
    """A plain subquery may be run again for each row; a materialized one and an array run once."""

    def unbounded(path: Path) -> Iterator[str]:
        return _unbounded_locks(text_of(path))

    assert broken_in(unbounded, ".sql", under=("pgcron_ha/db/sql", "migrations/sql")) == {}


def test_the_rule_about_limits_sees_what_it_should() -> None:
    query = "select id from run order by due_at limit 5 for update skip locked"

    assert list(_unbounded_locks(f"update run set x = 1 where id in ({query});"))
    assert list(_unbounded_locks(f"with due as ({query}) update run set x = 1 from due"))
    assert not list(_unbounded_locks(f"with due as materialized ({query}) update run set x = 1"))
    assert not list(_unbounded_locks(f"update run set x = 1 where id = any (array({query}))"))
    nested = f"select due.id from path cross join lateral ({query}) due limit 5"
    assert not list(_unbounded_locks(f"update run set x = 1 where id = any (array({nested}))"))
    assert not list(_unbounded_locks(f"-- where id in ({query})\n{query};"))


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _names(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_yield(call: ast.Call) -> bool:
    """``sleep(0)`` lets others run and waits for nothing."""
    return [ast.dump(argument) for argument in call.args] == [ast.dump(ast.Constant(0))]


def _unbounded_locks(script: str) -> Iterator[str]:
    """Every parenthesized query that locks and limits outside of any materialized one or array."""
    script = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", script, flags=re.DOTALL)
    opened: list[int] = []
    for position, character in enumerate(script):
        if character == "(":
            opened.append(position)
        elif character == ")" and opened:
            start = opened.pop()
            query = _own_text(script[start + 1 : position])
            around = (*opened, start)
            is_bounded = any(BOUNDED.search(script[max(0, at - 40) : at]) for at in around)
            if LOCK.search(query) and LIMIT.search(query) and not is_bounded:
                yield query.strip()


def _own_text(query: str) -> str:
    """The query without what stands in its own parentheses."""
    depth = 0
    kept = []
    for character in query:
        depth += (character == "(") - (character == ")")
        if depth == 0:
            kept.append(character)
    return "".join(kept)
