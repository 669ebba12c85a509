"""What a run may require of its node: labels, as the nodes announce them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pgcron_ha.config.values import LABEL_NAME, LABEL_VALUE
from pgcron_ha.errors import InvalidInput

Requirements = Mapping[str, str | bool] | Iterable[str]
"""``{"gpu": "a100", "ssd": True}`` (True: whatever its value) or ``["gpu=a100", "ssd"]``."""

MOST_LABELS: Final = 16

# What the database allows; `pgcron.requires_is_fine` says the same.
_WORD: Final = re.compile(f"{LABEL_NAME}(={LABEL_VALUE})?")


def requirement_words(given: object) -> tuple[str, ...] | None:
    """The labels of `Requirements` in order, each ``key=value`` or ``key``; None for none.

    Raises InvalidInput with the rule.
    """
    if given is None:
        return None
    words: list[object] = [None]
    if isinstance(given, Mapping):
        words = [_word(*item) for item in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        words = list(given)
    texts = [word for word in words if isinstance(word, str) and _WORD.fullmatch(word)]
    keys = {text.partition("=")[0] for text in texts}
    if len(words) > MOST_LABELS or len(keys) < len(words):
        wrong = next((word for word in words if word not in texts), given)
        raise InvalidInput(
            f"requires '{str(wrong or given)[:200]}' is not a list of labels",
            "It has at most 16 labels, none of them twice: key=value, or a key alone for any value."
            ' Keys have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+"'
            ' and "@", too.',
            'Write for example {"gpu": "a100"} or ["gpu=a100", "ssd"].',
        )
    return tuple(sorted(texts)) or None


def _word(key: object, value: object) -> object:
    if isinstance(key, str) and isinstance(value, str):
        return f"{key}={value}"
    return key if value is True else (key, value)
