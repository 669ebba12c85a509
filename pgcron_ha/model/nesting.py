"""The nesting depth of JSON documents, bounded so that any parser can read them."""

from __future__ import annotations

import re
from typing import Final

MOST_LEVELS: Final = 100
"""The nesting depth of args and of results at most."""

_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")


def levels_of(text: str) -> int:
    """The nesting depth of JSON text; an upper bound of it while that is within `MOST_LEVELS`."""
    most = text.count("[") + text.count("{")
    if most <= MOST_LEVELS:
        return most
    level = most = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        most = max(most, level)
    return most
