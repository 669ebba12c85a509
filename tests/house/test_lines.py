"""What `make lines` counts: neither blanks nor comments, in any language."""

from __future__ import annotations

import pytest

from tests.house.lines import data_lines, python_lines, sql_lines


def test_of_python_comments_and_docstrings_are_not_counted() -> None:
    assert python_lines('"""Why."""\n\n# what\nx = 1  # one\ny = """\na\n"""\n') == 4


def test_of_sql_comments_are_not_counted() -> None:
    assert sql_lines("-- name: one\n\nSELECT 1,\n  -- why\n  2;  -- two\n") == 2


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{# why #}\n\n<p>\n  {# and #}\n</p>\n", 2),
        ("<!-- why -->\n<p>text</p> <!-- text -->\n", 1),
        ("{# begin #}<p>\n</p>{# end #}\n", 2),
        ("/* why */\na { b: c }\n/* long,\n   and longer */\nd { e: f } /* g */\n", 2),
        ("// why\nlet a = 1;  // one\n  // and\nfetch('//host/*');\n/* end */\n", 2),
    ],
)
def test_of_pages_styles_and_scripts_comments_are_not_counted(text: str, lines: int) -> None:
    assert data_lines(text) == lines
