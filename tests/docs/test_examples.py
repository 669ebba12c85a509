"""Every example of the documents is executed, in the order in which it stands on its page."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, Block, blocks
from tests.docs.reader import Reader, is_as_shown
from tests.house.checkout import ROOT

# What is executed by tests of its own: tests/db/test_sql_contract.py.
ELSEWHERE = {"sql.md"}
# These make whole applications or start several nodes.
LONG = {
    "tutorial.md",
    "alembic.md",
    "fastapi.md",
    "django.md",
    "on-call.md",
    "workflow-examples.md",
}
# These start a database by `pgcron-ha dev`.
WITHOUT_A_DATABASE = {"tutorial.md"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the embedded server can enter, though another user runs it."""
    root = Path(tempfile.mkdtemp(prefix="pgcron-docs-")).resolve()
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[pytest.mark.long] if page.name in LONG else [],
        )
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
)
def test_the_examples_of_a_page_do_what_it_says(page: Path, database: str, folder: Path) -> None:
    reader = Reader(folder, None if page.name in WITHOUT_A_DATABASE else database)
    try:
        reader.follow(blocks(page))
    finally:
        reader.close()


@pytest.mark.parametrize("words", ["/etc/jobs.conf", "../jobs.conf", "jobs.conf not run: a reason"])
def test_an_example_writes_no_file_beyond_its_folder(words: str, folder: Path) -> None:
    with pytest.raises(AssertionError, match="line 7"):
        Reader(folder, None).follow([Block("ini", words, "text", 7)])

    assert [each.name for each in (folder / "app").iterdir()] == []


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("run 1\nended", True),
        ("run …\nended", True),
        ("…\nended", True),
        ("…", True),
        ("run 2\nended", False),
        ("run 1", False),
        ("…\nended\n…\nmore", False),
    ],
)
def test_what_is_shown_is_compared_with_what_is_printed(shown: str, is_right: bool) -> None:
    assert is_as_shown("run 1  \nended\n\n", shown) == is_right
