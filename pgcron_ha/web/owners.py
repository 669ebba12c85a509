"""What becomes of an edit here when a schedule is managed elsewhere."""

from __future__ import annotations

from typing import Final

_OWNERS: Final[dict[str, str]] = {
    "code": "It is managed by the code of an application: the next start of a node with it puts"
    " back what is edited here, but for a pause.",
    "file": "It is managed by a file: the next `pgcron-ha schedules apply` of it puts back what is"
    " edited here.",
}


def owner_words(managed_by: str) -> str | None:
    """A sentence, or None when an edit here stays."""
    return _OWNERS.get(managed_by)
