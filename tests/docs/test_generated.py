"""What the documents have from the code is up to date, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.db.sql_reference import codes
from tests.docs import generated
from tests.docs.blocks import DOCS, PAGES
from tests.house.checkout import ROOT
from tests.product.config import CAPABILITIES, _keys

_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """What a reader of the Markdown may link to: each heading, in the manner of GitHub."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("path", generated.PAGES, ids=lambda path: path.name)
def test_a_page_that_is_made_from_the_code_is_up_to_date(path: Path) -> None:
    assert generated.page(path) == path.read_text(), f"review and run: {generated.COMMAND}"


def test_the_page_of_metrics_names_those_that_are_recorded() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text()
    table = page.partition("| metric (`pgcron_…`)")[2].partition("\n\n")[0]
    recorded = (ROOT / "tests" / "golden" / "metrics.txt").read_text()
    kinds = dict(re.findall(r"^metric pgcron_(\w+) (\w+)", recorded, re.MULTILINE))
    names = {f"{name}_total" if kind == "counter" else name for name, kind in kinds.items()}

    assert set(re.findall(r"`([a-z_]+)`", table)) - {"_other"} == names


@pytest.mark.parametrize(("kind", "template"), CAPABILITIES.items())
def test_the_page_of_handlers_has_every_key_of_a_table(kind: str, template: type) -> None:
    page = (DOCS / "reference" / "handlers.md").read_text()
    of_all = page.partition("## Keys of every table")[2].partition("## shell")[0]
    own = page.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", of_all + own, re.MULTILINE)

    assert set(_keys(template)) <= set(named)


def test_the_page_of_errors_has_every_code() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    rows = re.findall(r"^\| `(PC\d+)` \| `(\w+)` \|", page, re.MULTILINE)
    exits = page.partition("## Exit codes")[2]
    known = (ROOT / "tests" / "golden" / "addresses.txt").read_text()

    assert dict(rows) == {code: kind.__name__ for code, kind in codes().items()}
    assert set(re.findall(r"^\| (\d+) \|", exits, re.MULTILINE)) == set(
        re.findall(r"^exit (\d+)", known, re.MULTILINE)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_pages_and_headings(page: Path) -> None:
    broken = []
    for target, heading in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        found = (page.parent / target).resolve() if target else page
        if not found.exists() or (heading and heading not in anchors(found)):
            broken.append(f"{target}#{heading}")

    assert broken == []
