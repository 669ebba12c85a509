"""Text from outside that may reach a terminal, a log or a page: what in it could reorder, hide or
colour the rest, or forge a line. Names, errors and output of handlers may hold anything. An
encrypted value (`pgcron_ha.Secret`) becomes a word.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Final

# Escape sequences of terminals: CSI, OSC and the like, then any control character left.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"
    r"|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?"
    r"|[PX^_][^\x1b]{0,2000}(?:\x1b\\)?"
    r"|.)?"
)
_CONTROLS: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_INVISIBLE: Final = _CONTROLS | {"Co", "Cn"}
# Joins of emoji and of scripts that need them; they can't reorder or hide anything.
_JOINS: Final = frozenset("\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}")
_LAYOUT: Final = frozenset("\n\t")

_SECRET: Final = "$secret"
# In JSON, laid out or within a text of JSON, and where a long text was cut.
_ENCRYPTED: Final = re.compile(r'\{\s*(\\*")\$secret\\*":\s*\{[^{}]*(?:\}\s*\}?)?')


def harmless(text: str) -> str:
    r"""With controls and format characters as escapes, such as ``\x1b``; lines stay lines."""
    return _replaced(text, _escaped)


def one_line(text: str) -> str:
    r"""As `harmless`, but a line break is an escape, too: ``\n``."""
    return harmless(text).replace("\n", "\\n")


def harmless_json(document: str) -> str:
    """The same JSON document, with such characters as escapes of JSON."""
    return _replaced(document, lambda each: json.dumps(each)[1:-1])


def left_out(text: str) -> str:
    """Without terminal escapes, controls and format characters; lines stay lines."""
    text = _without_secrets(text)
    if text.isprintable():
        return text
    return "".join(
        each for each in _ESCAPES.sub("", text) if each in _LAYOUT or not _is_invisible(each)
    )


def _escaped(character: str) -> str:
    return character if character in _LAYOUT else character.encode("unicode_escape").decode()


def _replaced(text: str, replace: Callable[[str], str]) -> str:
    """Without secrets, and each invisible character as `replace` gives it."""
    text = _without_secrets(text)
    if text.isprintable():  # as nearly all of it is
        return text
    return "".join(replace(each) if _is_invisible(each) else each for each in text)


def _without_secrets(text: str) -> str:
    return _ENCRYPTED.sub(r"\1••• (secret)\1", text) if _SECRET in text else text


def has_controls(name: str) -> bool:
    """Whether a name has what no name should: controls, format characters, halves of a pair."""
    if name.isprintable():
        return False
    return any(unicodedata.category(each) in _CONTROLS and each not in _JOINS for each in name)


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE and character not in _JOINS


def storable(text: str, most: int | None = None) -> str:
    """A text as PostgreSQL takes it: no NUL, no half of a surrogate pair, at most so long."""
    return text[:most].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
