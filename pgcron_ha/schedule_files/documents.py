"""YAML as plain values with their lines.

As version 1.2 reads it: ``no``, ``on`` and ``1:30`` are text. A key that is given twice is refused;
anchors and ``<<`` work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

from pgcron_ha.errors import InvalidInput, TooLarge

MOST_BYTES: Final = 4 * 1024 * 1024
# With what anchors repeat: a file of a few lines must not become a value of gigabytes.
MOST_VALUES: Final = 200_000
MOST_LEVELS: Final = 110
"""Of nested lists and mappings: args, which may have 100 levels, and what contains them."""
SUFFIXES: Final = (".yaml", ".yml")

_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # C, where libyaml is there
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?",
    "null": r"~|null|Null|NULL|",
    "merge": r"<<",
}


class Table(dict[str, Any]):
    """A mapping that knows the lines of its own keys, not those of keys that ``<<`` brings."""

    lines: dict[str, int]


class Yaml12Loader(_BASE):  # type: ignore[misc]
    """Scalars as YAML 1.2's core schema reads them; instants, dates and 007 are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def table(self, node: Any) -> Table:
        """Raises ConstructorError for a key that is given twice, or is no text."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConstructorError(None, None, "a key is not text", key.start_mark)
            if key.value in lines and key.tag != f"{_TAG}merge":
                fact = f"{key.value!r} is given twice; first in line {lines[key.value]}"
                raise ConstructorError(None, None, fact, key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        self.flatten_mapping(node)
        table = Table({key.value: self.construct_object(one, deep=True) for key, one in node.value})
        table.lines = lines
        return table


for _name, _pattern in _SCALARS.items():
    Yaml12Loader.add_implicit_resolver(
        f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z", re.ASCII), None
    )
Yaml12Loader.add_constructor(f"{_TAG}map", Yaml12Loader.table)


@dataclass(frozen=True)
class Document:
    """One file, or one of the several documents of a YAML file."""

    name: str
    """The file's, as it was given."""
    value: Any
    line: int = 1

    def where(self, *place: str) -> str:
        """``file, line 3``."""
        return f"{self.name}, line {self.line_of(*place)}"

    def line_of(self, *place: str | int) -> int:
        """Of the innermost key of its own on the way down to the place; an item of a list, by its
        number, is where its first key is.
        """
        line, value = self.line, self.value
        for key in place:
            if isinstance(key, int) and isinstance(value, list) and isinstance(value[key], Table):
                line, value = min(value[key].lines.values(), default=line), value[key]
            elif isinstance(value, Table) and key in value.lines:
                line, value = value.lines[key], value[key]
            else:
                break
        return line


def read_file(path: Path) -> list[Document]:
    """The documents of a file, one or several. Raises InvalidInput, TooLarge."""
    return read_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A file in UTF-8. Raises InvalidInput, TooLarge."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TooLarge(
                f"{path} is larger than {MOST_BYTES // 1024 // 1024} MiB",
                "A file is read as a whole.",
                "Split it into several files.",
            )
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} can't be read", f"{error}.", "Name a file in UTF-8 that you may read."
        ) from None


def read_yaml(text: str, name: str) -> list[Document]:
    """Raises InvalidInput with the line, also for a key that is given twice, and TooLarge."""
    try:
        _judge_depth(text, name)
        loader = Yaml12Loader(text)
        documents: list[Document] = []
        while loader.check_node():
            node = loader.get_node()
            value = loader.construct_document(node)
            _judge_size(value, name)
            documents.append(Document(name, value, node.start_mark.line + 1))
        return documents or [Document(name, None)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidInput(
            f"{name}, line {mark.line + 1 if mark else 1}: {error.problem or error.context}",
            "This is not YAML 1.2 that a file of schedules may have.",
            "Correct it there, or just before it.",
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidInput(
            f"{name}: this is not YAML", f"{str(error)[:300]}.", "It is text in YAML."
        ) from None


def _judge_depth(text: str, name: str) -> None:
    """Before nodes are composed: there libyaml recurses until its stack is full."""
    depth = 0
    for event in yaml.parse(text, Loader=Yaml12Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise TooLarge(
                f"{name}, line {line}: nested more than {MOST_LEVELS} levels",
                f"Lists and mappings may be nested {MOST_LEVELS} levels deep.",
                "Write it flatter.",
            )


def _judge_size(value: Any, name: str) -> None:
    """What anchors repeat is written once and counts each time."""
    count, pending = 0, [value]
    while pending:
        one = pending.pop()
        count += 1
        if count > MOST_VALUES:
            raise TooLarge(
                f"{name} has more than {MOST_VALUES} values",
                "What anchors repeat counts each time.",
                "Split it into several files.",
            )
        pending += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
