"""Runs that hold a slot of a living node although it was asked to stop them. They end only by
themselves, or with their process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

KILLED_SECONDS: Final = 10.0
"""Longer than a node needs to hear of a kill and to end what it can, which has no grace then."""

ASKED_SECONDS: Final = 300.0
"""As long a grace as anybody asks for; what still runs has not heard of its cancel."""

FEW: Final = 5
LOOK: Final = 1_000
"""Runs of one node that are looked at; more than any holds."""

UNRESPONSIVE: Final[Mapping[str, Any]] = {
    "killed_for": KILLED_SECONDS,
    "asked_for": ASKED_SECONDS,
    "few": FEW,
    "look_unresponsive": LOOK,
}
"""Parameters of statements whose rows have ``unresponsive_runs``: the first few runs, by id."""


def unresponsive_words(runs: Sequence[int]) -> str:
    """What they are, as the beginning of a sentence about their node."""
    more = " and more" if len(runs) >= FEW else ""
    names = ", ".join(map(str, runs))
    if len(runs) == 1:
        return f"run {names} goes on though asked to stop, and holds its slot"
    return f"runs {names}{more} go on though asked to stop, and hold their slots"
