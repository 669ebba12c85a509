"""``make lines``: the lines of code of the product, by package (DESIGN: size is a cost).

Counted are lines without blanks, comments and docstrings; none has more than 100 columns.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.house.checkout import ROOT, files

_SMALL: Final = 30
_DATA: Final = (".html", ".css", ".js")
# A comment that has its lines for itself.
_REMARK: Final = re.compile(
    r"^[ \t]*(?:\{#(?:(?!#\}).)*#\}|<!--(?:(?!-->).)*-->|/\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def python_lines(text: str) -> int:
    """Lines with a token that is neither a comment nor a docstring."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - set(_docstrings(ast.parse(text))))


def _docstrings(tree: ast.AST) -> Iterator[int]:
    """The lines of strings that stand as statements."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sql_lines(text: str) -> int:
    """Lines that are neither empty nor comments."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("--"))


def data_lines(text: str) -> int:
    """Lines of templates, styles and scripts that are neither empty nor comments."""
    return sum(1 for line in _REMARK.sub("", text).splitlines() if line.strip())


def counted(file: Path) -> int:
    """The lines of one file of the product."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return python_lines(text)
    return sql_lines(text) if file.suffix == ".sql" else data_lines(text)


def package(file: Path) -> str:
    """The package that a file is counted for."""
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main() -> None:
    """Print the lines and files of each package, and of all."""
    lines: Counter[str] = Counter()
    number: Counter[str] = Counter()
    small = 0
    for file in files(".py", ".sql", *_DATA, under=("pgcron_ha", "migrations", "web")):
        count = counted(file)
        lines[package(file)] += count
        number[package(file)] += 1
        small += count < _SMALL
    for name, count in lines.most_common():
        print(f"{count:7,} lines {number[name]:4} files  {name}")
    print(f"{lines.total():7,} lines {number.total():4} files, {small} under {_SMALL} lines")


if __name__ == "__main__":
    main()
