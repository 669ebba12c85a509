"""What is said about a fire: why it became no run, in the same words on every page."""

from __future__ import annotations

import re
from typing import Final

# What the stored words mean; a reason that is not here is a sentence already.
REASONS: Final[dict[str, str]] = {
    "catchup_latest": "late; a newer late fire ran in its place",
    "catchup_window": "late; older than the catch-up window",
    "catchup_none": "late; the schedule does not catch up",
    "paused": "the schedule was paused",
    "edited": "not decided yet when the schedule's timing was edited",
    "deleted": "not decided yet when the schedule was deleted",
    "overlap_skipped": "the last run was not over",
}
_CODE: Final = re.compile("[a-z_]+")


def reason_words(reason: str | None, note: str | None = None) -> str | None:
    """A stored reason and note as a sentence."""
    if reason is None:
        return None
    known, separator, rest = reason.partition(": ")
    words = REASONS.get(known) or (known.replace("_", " ") if _CODE.fullmatch(known) else known)
    reported = f"{words}{separator}{rest}"
    return ": ".join(filter(None, [reported, note]))
