"""Words that nobody else uses do not come back (the glossary in README and the design)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

from tests.house.checkout import files, name

RETIRED: Final = {
    "told": "reported, recorded, shown",
    "tell": "report, record, show",
    "tells": "reports, records, shows",
    "lane": "concurrency key, overlap slot",
    "lanes": "concurrency keys, overlap slots",
    "wish": "request, options",
    "wishes": "requests, options",
    "door": "interface",
    "doors": "interfaces",
    "deaf": "unresponsive",
    "divert": "use the fallback",
    "diverted": "taken by the fallback",
    "diversion": "fallback",
    "hearing": "notifications",
    "stranger": "orphaned claim, foreign object",
    "strangers": "orphaned claims, foreign objects",
    "farewell": "process exit",
    "heads": "due index, candidates",
    "intake": "acceptance",
    "pace": "prefetch",
    "visit": "page request",
    "moments": "times",
    "amiss": "excess",
    "belongings": "leaked resources",
    "standing": "node snapshot",
    "workforce": "executors",
    "workplace": "executor services",
}
"""And what the field says."""
NOT_FOR_READERS: Final = RETIRED.keys() - {"heads"} | {"parked", "unserved"}
"""Also words of columns and of the claim that readers do not know; alembic has heads."""

_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_QUOTED: Final = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_COMMANDS: Final = re.compile(r"`[^`]*`")
_IN_TEMPLATES: Final = re.compile(r"\{[{%#].*?[%#}]\}|<[^>]*>|```.*?```", re.DOTALL)


def retired_in(text: str, words: Container[str] = RETIRED) -> set[str]:
    return {part.lower() for part in _PARTS.findall(text) if part.lower() in words}


def test_names_are_words_of_the_field() -> None:
    found: dict[str, set[str]] = {}
    for path in files(".py", under=("pgcron_ha", "migrations")):
        assert not retired_in(path.stem), name(path)
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME}
        # Tests that others run with are called by sentences.
        wrong = {each for each in names if not each.startswith("test_") and retired_in(each)}
        found |= {name(path): wrong} if wrong else {}
    for path in files(".sql", under=("pgcron_ha", "migrations")):
        assert not retired_in(path.stem), name(path)
        wrong = {w for w in re.findall(r"\w+", _QUOTED.sub("", path.read_text())) if retired_in(w)}
        found |= {name(path): wrong} if wrong else {}

    assert found == {}


def test_messages_are_made_of_words_of_the_field() -> None:
    messages = [
        (f"{name(path)}:{line}", text)
        for path in files(".py", under=("pgcron_ha",))
        for line, text in _messages(path)
    ]
    messages += [
        (name(path), text)
        for path in files(".sql", under=("pgcron_ha", "migrations"))
        for text in _QUOTED.findall(path.read_text())
        if text.startswith("'")
    ]
    wrong = [
        (place, text)
        for place, text in messages
        if retired_in(_COMMANDS.sub("", text), NOT_FOR_READERS if " " in text else RETIRED)
    ]

    assert wrong == []


def test_pages_and_documents_are_made_of_words_of_the_field() -> None:
    found = {
        name(path): words
        for path in [*files(".md", under=("docs",)), *files(".html", under=("web",))]
        if (words := retired_in(_read_by_people(path), NOT_FOR_READERS))
    }

    assert found == {}


def test_comments_and_docstrings_are_made_of_words_of_the_field() -> None:
    found = [
        (name(path), text)
        for path in files(".py", ".sql", under=("pgcron_ha", "migrations"))
        for text in _remarks(path)
        if retired_in(_COMMANDS.sub("", text), RETIRED.keys() - {"heads"})
    ]

    assert found == []


def _read_by_people(path: Path) -> str:
    return _COMMANDS.sub("", _IN_TEMPLATES.sub("", path.read_text()))


def _remarks(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield from re.findall(r"--[^\n]*", path.read_text())
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of several words that are no docstrings."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in documents:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
