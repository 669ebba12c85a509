"""What the documents say of commands and files is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.docs.blocks import DOCS, PAGES, blocks
from tests.house.checkout import ROOT
from tests.product.cli import cli

README = ROOT / "README.md"
# A code span, or a line of a block, that begins with the program.
COMMAND = re.compile(r"(?:^|`|\$\()(?:\.venv/bin/)?pgcron-ha ([^`\n|)#]+)", re.MULTILINE)

SUBSTITUTED = re.compile(r"\$\(.*?(?:\)|$)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_that_is_named_exists_with_its_options(page: Path) -> None:
    wrong = [line for line in COMMAND.findall(page.read_text()) if not is_known(line)]

    assert wrong == []


def is_known(line: str) -> bool:
    words = shlex.split(SUBSTITUTED.sub("X", line).replace("'", "").replace('"', ""))
    command: click.Command = cli
    context = click.Context(cli)
    options: set[str] = {"-h", "--help", "--version", "--config", "--dsn", "--schema"}
    for word in words:
        if word.startswith("-"):
            if isinstance(command, click.Group) and "list" in command.commands:
                command = command.commands["list"]
            options |= {name for each in command.params for name in each.opts}
            if word.partition("=")[0] not in options:
                return False
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z_-]+", word):
            found = command.get_command(context, word)
            if found is None:
                return False
            command = found
    return True


def test_the_readme_is_read_in_one_sitting() -> None:
    text = README.read_text()

    assert text.count("\n") <= 160
    assert len(text.split()) <= 1_300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_not_run_has_a_reason(page: Path) -> None:
    found = [block.words for block in blocks(page) if block.words.startswith("not run")]

    assert [words for words in found if not re.fullmatch(r"not run: .{10,}", words)] == []


def test_no_two_pages_have_one_name() -> None:
    stems = [path.stem for path in DOCS.rglob("*.md")]

    assert len(stems) == len(set(stems))


def test_the_lines_of_the_examples_are_counted() -> None:
    page = DOCS / "how-to" / "workflow-examples.md"
    counted = [
        sum(not line.lstrip().startswith("#") for line in block.text.splitlines() if line.strip())
        for block in blocks(page)
        if block.language == "python"
    ]
    rows = re.findall(r"^\| \[.*\) \|(.*)\|$", page.read_text(), re.MULTILINE)

    assert [int(cell) for row in rows for cell in row.split("|") if cell.strip()] == counted
