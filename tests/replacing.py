"""Replaces a part of a statement or function, wherever its lines are broken."""

from __future__ import annotations

import re


def replaced(text: str, old: str, new: str) -> str:
    """The text with `new` in place of each `old`; LookupError when there is none."""
    pattern = r"\s+".join(re.escape(word) for word in old.split())
    begin, end = re.match(r"\s*", old), re.search(r"\s*\Z", old)
    around = (begin[0] if begin else "") + pattern + (end[0] if end else "")
    changed, found = re.subn(around, lambda _: new, text)
    if not found:
        raise LookupError(f"{old!r} is not in it any more")
    return changed
