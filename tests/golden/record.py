"""What users, scripts and dashboards rely on, as text. The files beside this one hold it.

A file changes only where a change is meant: in a commit of its own, so that its difference can be
read line by line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import psycopg

from tests.db.sql_reference import codes, public_functions
from tests.house.checkout import ROOT
from tests.product.cli import FAILED, INTERRUPTED, cli
from tests.product.config import SETTINGS
from tests.product.engine import EXIT_UNRESPONSIVE, EXIT_WITHOUT_LEASE
from tests.product.executors import PATH
from tests.product.web import ROUTES

FOLDER: Final = Path(__file__).parent
_WIDTH: Final = 100
_COLUMNS: Final = b"""
    SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'pgcron'::regnamespace AND NOT a.attisdropped
           AND c.relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') NOT LIKE 'Private: %'
     ORDER BY c.relname COLLATE "C", a.attname COLLATE "C" """


def contract(dsn: str) -> Iterator[str]:
    """Public functions, and the columns of public views and tables."""
    with psycopg.connect(dsn) as connection:
        for name, arguments, result, _ in public_functions(connection):
            yield f"function {name} -> {result}"
            yield from (f"    {each}" for each in _split(arguments))
        for relation, column, kind in connection.execute(_COLUMNS):
            yield f"column {relation}.{column} {kind}"


def _split(arguments: str) -> list[str]:
    """At the commas between arguments, not at those within a default."""
    return [each for each in re.split(r", (?=\w+ [a-z])", arguments) if each]


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command and group with the words that call it."""

    def walk(words: tuple[str, ...], command: click.Command) -> Any:
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk((*words, name), inner)

    yield from walk(("pgcron-ha",), cli)


def context_of(words: tuple[str, ...], command: click.Command) -> click.Context:
    """As when it is called, whatever called it before: click keeps the first help option of a
    command, which another test may have called by itself.
    """
    command._help_option = None
    context = click.Context(command, info_name=" ".join(words), terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    return context


def command_help() -> Iterator[str]:
    """The help text of every command."""
    for words, command in commands():
        context = context_of(words, command)
        yield f"$ {' '.join(words)} --help"
        yield from (line.rstrip() for line in command.get_help(context).splitlines())
        yield ""


def addresses() -> Iterator[str]:
    """Settings, routes, error codes and exit codes."""
    yield from (f"setting {each.key} {each.variable}" for each in SETTINGS)
    yield from (f"route {each.method} {each.path} {each.permission}" for each in ROUTES)
    yield f"route POST {PATH} (callbacks)"
    yield from (f"error {code} {kind.__name__}" for code, kind in sorted(codes().items()))
    yield from (f"exit {code}" for code in (0, FAILED, click.UsageError.exit_code, INTERRUPTED))
    yield from (f"exit {code} (node)" for code in (EXIT_WITHOUT_LEASE, EXIT_UNRESPONSIVE))


def key_paths(value: Any, path: str = "") -> Iterable[str]:
    """The keys of an object, those of nested ones after a dot; lists are marked by []."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}".removeprefix(".")
            yield from key_paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from key_paths(inner, f"{path}[]")


@cache
def test_names() -> set[str]:
    """The names of all test functions; without files, which may move."""
    return {
        each.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for each in _functions(ast.parse(file.read_text()).body)
        if each.name.startswith("test_")
    }


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of a module and of its classes, where tests are; not what stands within them."""
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each
        elif isinstance(each, ast.ClassDef):
            yield from _functions(each.body)
