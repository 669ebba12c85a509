from __future__ import annotations

from pgcron_ha.errors import PgcronError
from tests.cli.conftest import Cli
from tests.docs.blocks import DOCS

PAGES = sorted(DOCS.rglob("*.md"))


def test_the_documents_are_listed_with_their_titles(cli: Cli) -> None:
    lines = cli("docs").out.splitlines()

    listed = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    titles = {path.stem: path.read_text().partition("\n")[0][2:] for path in PAGES}
    assert len(titles) == len(PAGES)  # a name is enough, so no two are alike
    assert dict(listed) == titles


def test_a_document_is_printed_as_it_is(cli: Cli) -> None:
    assert cli("docs", "tutorial").out == (DOCS / "tutorial.md").read_text()


def test_an_unknown_document_is_refused_with_a_near_one(cli: Cli) -> None:
    refused = cli("docs", "tutorail")

    assert refused.code == 1
    assert "did you mean 'tutorial'?" in refused.err


def test_an_error_names_the_document_that_helps(cli: Cli) -> None:
    kinds: list[type[PgcronError]] = [PgcronError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {kind.page for kind in kinds} - {None} <= {path.stem for path in PAGES}

    refused = cli("next", "61 * * * *")
    assert refused.err.splitlines()[-1] == "read: pgcron-ha docs specs"
