"""JSON as people read it, from the text that the database gave: numbers keep every digit.

Written as a walk over the text, so that the size of what comes out is bounded whatever is nested
how deeply, and a text that was cut off in the middle is still laid out.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_STEP: Final = "  "
# Deeper levels are not indented further: a thousand brackets would be a million spaces.
_DEEPEST: Final = 24


def pretty(text: str, most: int) -> str:
    """The text of one JSON value with a line for each member, cut at about `most` characters."""
    parts: list[str] = []
    size, depth, previous = 0, 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        depth -= token in ("}", "]")
        part = _gap(previous, token, depth) + token
        depth += token in ("{", "[")
        size += len(part)
        if size > most:
            return "".join((*parts, part[: max(0, most - size)], "…"))
        parts.append(part)
        previous = token
    return "".join(parts)


def _gap(previous: str, token: str, depth: int) -> str:
    if previous == ":":
        return " "
    if token in (",", ":") or not previous:
        return ""
    if token in ("}", "]"):
        return "" if previous in ("{", "[") else _line(depth)
    return _line(depth) if previous in ("{", "[", ",") else ""


def _line(depth: int) -> str:
    return "\n" + _STEP * max(0, min(depth, _DEEPEST))
