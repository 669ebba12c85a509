"""Patterns of the configuration that judge what comes with a run, matched in linear time (RE2).

Python's own `re` goes back and tries again: a short value against an innocent pattern can take it
years, and no other thread of the process has a turn meanwhile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol


class Pattern(Protocol):
    """What is used of a compiled pattern."""

    def fullmatch(self, text: str) -> Any:
        """None if the text does not match from end to end."""


@lru_cache(maxsize=1000)
def compile_pattern(text: str) -> Pattern:
    """Raises ValueError with the rule that the text does not keep."""
    import re2  # a node without placeholders does not load it

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        reported = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(
            f"'{text}' is no regular expression of RE2's syntax: {reported}; it has no"
            " backreferences, no look-around and no repetition of more than 1,000 times, and"
            " matches in linear time"
        ) from None
    return compiled
