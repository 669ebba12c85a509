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


def requirement_words(given: Requirements | None) -> tuple[str, ...] | None:
    """The labels in order, each ``key=value`` or ``key``; None when nothing is required.

    Raises InvalidInput with the rule.
    """
    if given is None:
        return None
    words = [_word(*item) for item in given.items()] if isinstance(given, Mapping) else _list(given)
    keys = {word.partition("=")[0] for word in words}
    if len(words) > MOST_LABELS or len(keys) < len(words):
        raise _refused(", ".join(words))
    for word in words:
        if not _WORD.fullmatch(word):
            raise _refused(word)
    return tuple(sorted(words)) or None


def _list(given: object) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _refused(given)
    words = list(given)
    if not all(isinstance(word, str) for word in words):
        raise _refused(words)
    return words


def _word(key: object, value: object) -> str:
    if not isinstance(key, str) or not (value is True or isinstance(value, str)):
        raise _refused(f"{key}={value}")
    return key if value is True else f"{key}={value}"


def _refused(given: object) -> InvalidInput:
    return InvalidInput(
        f"requires '{str(given)[:200]}' is not a list of labels",
        "It has at most 16 labels, none of them twice: key=value, or a key alone for any value."
        ' Keys have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+" and'
        ' "@", too.',
        'Write for example {"gpu": "a100"} or ["gpu=a100", "ssd"].',
    )
