"""Named statements as functions: how they take their parameters."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

from tests.product.db import Named, Statement, commands, health, load, pages, plain, queries

STATEMENT = Statement("pause", "SELECT $1, $2, $3", ("name", "note", "actor"))
PAUSE = Named("pause", "name", note="why not")


def every_command() -> Iterator[tuple[str, Named]]:
    for package in (commands, queries, pages):
        for module in pkgutil.iter_modules(package.__path__):
            for name, value in vars(import_module(f"{package.__name__}.{module.name}")).items():
                command = getattr(value, "__self__", value)
                if isinstance(command, Named):
                    yield f"{package.__name__}.{module.name}.{name}", command
    for name, value in health.READINGS.items():
        yield f"health.READINGS.{name}", getattr(value, "__self__", value)


def test_values_are_taken_in_order_and_by_name_and_the_rest_is_null() -> None:
    assert PAUSE.bound(STATEMENT, ["mail"], {}) == {
        "name": "mail",
        "note": "why not",
        "actor": None,
    }
    assert PAUSE.bound(STATEMENT, ["mail", "full"], {"actor": "ada"}) == {
        "name": "mail",
        "note": "full",
        "actor": "ada",
    }


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([], {}),
        (["mail"], {"until": "noon"}),
        (["mail"], {"name": "mail"}),
        (["mail", "full", "ada"], {}),
    ],
    ids=["missing", "unknown", "twice", "too many"],
)
def test_what_is_missing_unknown_or_given_twice_is_refused(
    values: list[str], options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="pause takes name, note, actor, and needs name"):
        PAUSE.bound(STATEMENT, values, options)


def test_every_command_names_a_statement_and_parameters_that_it_has() -> None:
    found = dict(every_command())
    assert len(found) > 100
    for place, command in found.items():
        statement = load()[command.name]
        known = set(statement.parameters)
        assert set(command.bound(statement, command.required, {})) == known, place


def test_durations_are_seconds_and_arrays_lists_for_every_driver() -> None:
    assert plain(timedelta(minutes=2)) == 120.0
    assert plain(("a", "b")) == ["a", "b"]
    assert plain("text") == "text"
