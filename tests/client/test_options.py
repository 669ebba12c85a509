"""Every interface has every row of the table of options, with its type and bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click
import pytest

from tests.golden.record import FOLDER, commands
from tests.product.client import OF_RUNS, POLICIES, Option, Policies, RunOptions
from tests.product.schedule_files import json_schema

_SQL: Final[Mapping[Any, str]] = {
    **{str: "text", int: "integer", bool: "boolean", tuple: "text[]"},
    **{timedelta: "interval", datetime: "timestamp with time zone"},
}
_JSON: Final = ("args", "retry", "links")
# Those of `unique`, which the Python interface says by a class of its own.
_OF_UNIQUE: Final = frozenset(
    {"unique_key", "unique_scope", "unique_for", "on_conflict", "debounce", "debounce_max"}
)


def arguments_in_sql(function: str) -> dict[str, str]:
    """The arguments of a function of the contract, and their types."""
    text = (FOLDER / "contract.txt").read_text()
    found = re.search(rf"^function {function} -> .*\n((?: +.*\n)*)", text, re.MULTILINE)
    assert found is not None
    lines = [line.split(" DEFAULT ")[0].strip() for line in found[1].splitlines()]
    return dict(line.split(" ", 1) for line in lines)


def options_of(*words: str) -> dict[str, click.Option]:
    """The options of a command by the names of their values."""
    command = dict(commands())["pgcron-ha", *words]
    return {str(each.name): each for each in command.params if isinstance(each, click.Option)}


def test_code_has_the_policies_and_options_of_the_table() -> None:
    assert set(Policies.__annotations__) == set(POLICIES) - {"enabled", "managed_by"}
    own = {"unique"} | (set(OF_RUNS) - _OF_UNIQUE)
    assert set(RunOptions.__annotations__) == own


@pytest.mark.parametrize(("function", "table"), [("put_schedule", POLICIES), ("enqueue", OF_RUNS)])
def test_sql_takes_each_by_its_name_and_type(function: str, table: Mapping[str, Option]) -> None:
    arguments = arguments_in_sql(function)
    wanted = {name: _SQL[row.kind] for name, row in table.items()}
    wanted |= {name: "jsonb" for name in _JSON if name in table}
    assert wanted.items() <= arguments.items()


@pytest.mark.parametrize(
    ("words", "table"), [(("schedules", "put"), POLICIES), (("enqueue",), OF_RUNS)]
)
def test_the_command_line_has_each_with_its_type_and_default(
    words: tuple[str, ...], table: Mapping[str, Option]
) -> None:
    options = options_of(*words)
    assert set(table) - {"key_lifetime"} <= set(options)
    for name, row in table.items():
        if name in options:
            option = options[name]
            assert (option.type is click.INT) == (row.kind is int), name
            assert (option.metavar == "DURATION") == (row.kind is timedelta), name
            shown = re.search(r"Default: (\w+)", option.help or "")
            if shown is not None and row.kind is not timedelta and row.default is not None:
                assert shown[1] == str(row.default)


def test_the_published_form_of_files_has_the_bounds_and_words() -> None:
    properties = json_schema()["$defs"]["schedule"]["properties"]
    for name, row in POLICIES.items():
        if name != "managed_by":
            form, null = properties[name]["anyOf"]
            assert null == {"type": "null"}
            if row.kind is int:
                assert (form["minimum"], form["maximum"]) == (row.least, row.most)
            if row.words:
                assert set(row.words) <= set(form["enum"])


def test_each_default_of_a_schedule_is_what_its_row_takes() -> None:
    for name, row in POLICIES.items():
        if row.default is not None:
            assert row.checked(name, row.default) == row.default
