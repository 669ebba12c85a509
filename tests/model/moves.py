"""The changes of a run that the models make, as their text says: ``MOVE(run, from, to, why)`` for
one that stays alive, ``END(…)`` for one that goes to history.
"""

from __future__ import annotations

import re
from typing import Final

Moves = frozenset[tuple[str, str]]

ENDS_OF_WAITING: Final = (
    *("succeeded", "dead", "cancelled", "skipped", "superseded", "expired", "upstream_failed"),
)
TABLE: Final[Moves] = frozenset(
    {
        ("ready", "running"),
        ("ready", "blocked"),
        ("blocked", "ready"),
        *((state, end) for state in ("ready", "blocked") for end in ENDS_OF_WAITING),
        ("running", "ready"),
        ("running", "blocked"),
        *(("running", outcome) for outcome in ("succeeded", "dead", "lost", "cancelled")),
    }
)
"""Every change a run may make: what models, SQL and the picture in README are held to."""

_LABEL: Final = re.compile(r"\b(?:MOVE|END)\([^,()]+, (\w+), (\w+), \w+\)")


def moves(text: str) -> Moves:
    """(from, to) of every labelled change in a model's text. Raises ValueError for a label that
    can't be read.
    """
    calls = "\n".join(line for line in text.splitlines() if not line.startswith("#define"))
    found = _LABEL.findall(calls)
    if len(found) != len(re.findall(r"\b(?:MOVE|END)\(", calls)):
        raise ValueError("a MOVE or END does not name its states in words")
    return frozenset(found)


def sets_a_state_elsewhere(text: str) -> bool:
    """Whether a state is written past the labels (apart from init, the definitions and a
    failover, which sets all of the database back)."""
    calls = "\n".join(line for line in text.splitlines() if not line.startswith("#define"))
    body = calls.partition("\ninit ")[0].replace("row[r].state = 0;", "")
    return re.search(r"\brow\[[^\]]*\]\.state = ", body) is not None
