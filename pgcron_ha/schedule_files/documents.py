"""YAML as plain values that know their lines.

As version 1.2 reads it: ``no``, ``on`` and ``1:30`` are text. A key that is given twice is refused;
anchors and ``<<`` work.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from pgcron_ha.errors import InvalidInput, TooLarge

MOST_BYTES: Final = 4 * 1024 * 1024
# With what anchors repeat: a file of a few lines must not become a value of gigabytes.
MOST_VALUES: Final = 200_000
MOST_DOCUMENTS: Final = 1000
MOST_LEVELS: Final = 110
"""Of lists and mappings in each other: args, which may have 100, and what they stand in."""
SUFFIXES: Final = (".yaml", ".yml")

Place = tuple[str, ...]
"""Keys from the top down to a value."""

_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # C, where libyaml is there
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]{1,18}",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?",
    "null": r"~|null|Null|NULL|",
    "merge": r"<<",
}


class Yaml12Loader(_BASE):  # type: ignore[misc]
    """Scalars as YAML 1.2's core schema reads them; instants and dates are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _name, _pattern in _SCALARS.items():
    Yaml12Loader.add_implicit_resolver(
        f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z", re.ASCII), None
    )


@dataclass(frozen=True)
class Document:
    """One file, or one of the several documents of a YAML file."""

    name: str
    """The file's, as it was given."""
    value: Any
    lines: Mapping[Place, int] = field(default_factory=dict)
    """Where keys stand, as far as that is known."""

    def where(self, *place: str) -> str:
        """``file, line 3``: of the innermost key whose line is known."""
        for length in range(len(place), -1, -1):
            if (line := self.lines.get(place[:length])) is not None:
                return f"{self.name}, line {line}"
        return self.name


def read_file(path: Path) -> list[Document]:
    """The documents of a file, one or several. Raises InvalidInput, TooLarge."""
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TooLarge(
                f"{name} is larger than {MOST_BYTES // 1024 // 1024} MiB",
                "A file of schedules is read as a whole.",
                "Split it into several files of a folder.",
            )
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{name} can't be read", f"{error}.", "Name a file in UTF-8 that you may read."
        ) from None
    return read_yaml(text, name)


def read_yaml(text: str, name: str) -> list[Document]:
    """Raises InvalidInput with the line, also for a key that stands twice, and TooLarge."""
    try:
        _judge_depth(text, name)
        loader = Yaml12Loader(text)
        try:
            documents: list[Document] = []
            while loader.check_node():
                documents.append(_Reader(loader, name).document(loader.get_node()))
                if len(documents) > MOST_DOCUMENTS:
                    raise TooLarge(f"{name} has more than {MOST_DOCUMENTS} documents")
            return documents or [Document(name, None)]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        facts = ", ".join(part for part in (error.context, error.problem) if part)
        raise InvalidInput(
            f"{where}: this is not YAML", f"{facts}.", "Correct it there, or just before it."
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidInput(
            f"{name}: this is not YAML", f"{str(error)[:300]}.", "It is text in YAML."
        ) from None


def _judge_depth(text: str, name: str) -> None:
    """Before nodes are put together, for which libyaml calls itself until its stack is full."""
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
                f"Lists and mappings may stand in each other {MOST_LEVELS} levels deep.",
                "Write it flatter.",
            )


class _Reader:
    """Makes values of the nodes of one document, and remembers lines."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name
        self._values = 0
        self._lines: dict[Place, int] = {}

    def document(self, node: Any) -> Document:
        self._lines[()] = node.start_mark.line + 1
        return Document(self._name, self._value(node, ()), self._lines)

    def _value(self, node: Any, place: Place) -> Any:
        self._values += 1
        if self._values > MOST_VALUES:
            raise TooLarge(
                f"{self._name} has more than {MOST_VALUES} values",
                "What anchors repeat counts each time.",
                "Split it into several files.",
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*place, str(n))) for n, item in enumerate(node.value)]
        if node.tag == f"{_TAG}int":
            return int(node.value)
        if node.tag == f"{_TAG}float":
            return float(node.value)
        if node.tag == f"{_TAG}bool":
            return node.value.lower() == "true"
        if node.tag == f"{_TAG}null":
            return None
        if node.tag in (f"{_TAG}str", f"{_TAG}merge", "!"):
            return node.value
        raise self._refusal(node, f"the tag {node.tag[:60]} is not known", "Leave the tag out.")

    def _mapping(self, node: Any, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key_node.tag == f"{_TAG}merge":
                for one in self._merged(value_node, place):
                    inherited = {**one, **inherited}
                continue
            inner = (*place, key)
            if key in found:
                first = self._lines.get(inner)
                raise self._refusal(
                    key_node, f"{key!r} stands twice; first in line {first}", "Remove one of them."
                )
            self._lines[inner] = key_node.start_mark.line + 1
            found[key] = self._value(value_node, inner)
        return {**inherited, **found}

    def _merged(self, node: Any, place: Place) -> Iterator[dict[str, Any]]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for one in nodes:
            if not isinstance(one, yaml.MappingNode):
                raise self._refusal(one, "<< takes mappings", "Write for example <<: *defaults.")
            yield self._mapping(one, (*place, "<<"))

    def _key(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode) or not isinstance(node.value, Hashable):
            raise self._refusal(node, "a key is not text", "Write a plain key.")
        return str(node.value)

    def _refusal(self, node: Any, fact: str, hint: str) -> InvalidInput:
        line = node.start_mark.line + 1
        return InvalidInput(f"{self._name}, line {line}: {fact}", "This is YAML 1.2.", hint)
