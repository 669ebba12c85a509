"""How deep JSON is nested: what readers in every language, and PostgreSQL, can take."""

from __future__ import annotations

import re
from typing import Final

MOST_LEVELS: Final = 100
"""Objects and lists may stand in each other so many levels deep, in args and in results."""

_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")


def levels_of(text: str) -> int:
    """How deep JSON text is nested: at most, when that is no more than `MOST_LEVELS`."""
    most = text.count("[") + text.count("{")
    if most <= MOST_LEVELS:
        return most
    level = most = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        most = max(most, level)
    return most
