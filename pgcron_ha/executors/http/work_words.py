"""The words by which services say how far work is, whether they are asked or call back."""

from __future__ import annotations

import json
from typing import Any, Final

GOES_ON: Final = frozenset(
    {
        *("notstarted", "accepted", "pending", "queued"),
        *("running", "inprogress", "processing"),
    }
)
WELL: Final = frozenset({"succeeded", "success", "completed", "done"})
BADLY: Final = frozenset({"failed", "failure", "error", "cancelled", "canceled"})


def plain_word(word: str) -> str:
    """As it stands in the sets: in lower case, without blanks, ``-`` and ``_``."""
    return word.lower().replace(" ", "").replace("-", "").replace("_", "")


def failure_text(error: Any, word: str) -> str:
    """Why work has failed, as its service gives it: a text, or an object with ``message``."""
    if isinstance(error, dict):
        error = error.get("message", error)
    text = error if isinstance(error, str) else json.dumps(error)
    return f"the work has ended: {word}" + (f" ({text})" if error is not None else "")
