from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Cli

Execute = Callable[..., object]


def open_it(execute: Execute) -> None:
    """As if five attempts had just failed."""
    execute("SELECT pgcron.open_breaker('py:fragile', 'no route to host', '5 failures in 1 m')")


def test_breakers_are_set_listed_reset_and_forgotten(cli: Cli, execute: Execute) -> None:
    assert cli("breakers", "list").out == "no breakers\n"
    said = cli("breakers", "set", "py:fragile", "--within", "2m", "--fallback-handler", "py:spare")
    assert said.out == "breaker 'py:fragile' opens after 5 failures in 2m\n"
    open_it(execute)
    (row,) = cli("breakers", "list", "--json").rows
    assert (row["state"], row["reason"], row["handlers"]) == (
        "open",
        "5 failures in 1 m",
        ["py:fragile"],
    )
    assert "no route to host" in cli("breakers", "list").out
    assert cli("breakers", "reset", "py:fragile").out == "breaker 'py:fragile' is closed\n"
    assert cli("breakers", "reset", "py:fragile").out == "breaker 'py:fragile' was closed already\n"
    cli("breakers", "delete", "py:fragile")
    assert "does not exist" in cli("breakers", "reset", "py:fragile").err
    assert "handler" in cli("breakers", "set", "fragile").err


def test_a_run_that_waits_for_a_breaker_says_so(cli: Cli, execute: Execute) -> None:
    cli("breakers", "set", "py:fragile")
    open_it(execute)
    cli("enqueue", "py:fragile")
    execute("UPDATE pgcron.run SET state = 'blocked', gate = 'breaker'")
    shown = cli("runs", "show", "1").out

    assert "the circuit of py:fragile is open for another " in shown
    assert "5 failures in 1 m, last: no route to host" in shown
