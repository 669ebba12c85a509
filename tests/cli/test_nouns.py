"""A noun alone lists."""

from __future__ import annotations

import click
import pytest

from tests.cli.conftest import Cli
from tests.product.cli import COMMANDS
from tests.product.cli import cli as program

GROUPS = [
    name
    for name in COMMANDS
    if isinstance(found := program.get_command(click.Context(program), name), click.Group)
    and "list" in found.commands
]


@pytest.mark.parametrize("noun", GROUPS)
def test_a_noun_alone_lists(cli: Cli, noun: str) -> None:
    listed = cli(noun, "list", "--limit", 5)

    assert listed.code == 0
    assert cli(noun, "--limit", 5) == listed == cli(noun)
    assert "Usage" in cli(noun, "--help").out


@pytest.mark.parametrize("noun", GROUPS)
def test_options_stand_before_or_after_a_command(cli: Cli, noun: str) -> None:
    listed = cli(noun, "list", "--limit", 5, "--json")

    assert listed.code == 0
    assert cli(noun, "--json", "list", "--limit", 5) == listed
    assert cli(noun, "--schema", "pgcron", "--limit", 5, "list", "--json") == listed


def test_the_value_of_an_option_is_no_command(cli: Cli) -> None:
    assert cli("schedules", "--tag", "import").out == "no schedules\n"
