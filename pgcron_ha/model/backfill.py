"""The instants of a schedule that a backfill fills in: which come next, and how many there are.

A backfill's range begins at ``since`` and ends before ``until``. Pure: the same arguments give the
same instants on every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pgcron_ha.errors import TooLarge
from pgcron_ha.spec.bounds import A_SECOND, AN_INSTANT, EARLIEST
from pgcron_ha.spec.spec import Spec

MOST_INSTANTS: Final = 1_000_000

# Where instants are found by searching, a range is counted in so many stretches: no list of a
# million is made, and a node that stops waits for one stretch at most.
_STRETCHES: Final = 200


def count(spec: Spec, since: datetime, until: datetime) -> Iterator[int]:
    """How many instants the range has, stretch by stretch: add them up. Raises `TooLarge` for more
    than `MOST_INSTANTS`.
    """
    is_arithmetic = len(spec.rules) == 1 and not spec.exclusions
    step = (until - since) / (1 if is_arithmetic else _STRETCHES)
    begin, instants = max(since, EARLIEST), 0  # nothing fires earlier
    while begin < until:
        end = min(begin + max(step, A_SECOND), until)
        counted = spec.count(begin - AN_INSTANT, end - AN_INSTANT, MOST_INSTANTS)
        instants += counted
        if instants > MOST_INSTANTS:
            raise TooLarge(
                f"the range has more than {MOST_INSTANTS} instants of the schedule, {instants} at"
                " least",
                f"A backfill has up to {MOST_INSTANTS} instants.",
                "Ask for several ranges, one after the other.",
            )
        yield counted
        begin = end


def following(
    spec: Spec,
    reached: datetime | None,
    since: datetime,
    until: datetime,
    direction: str,
    most: int,
) -> tuple[list[datetime], bool]:
    """Up to ``most`` instants after ``reached`` (None: from the beginning) in the direction
    (``forward`` or ``backward``), and whether there are no others behind them.
    """
    if direction == "forward":
        begin = since - AN_INSTANT if reached is None else reached
        found = spec.between(begin, until - AN_INSTANT, most)
        return found, len(found) < most
    found = []
    fire = spec.previous(until if reached is None else reached)
    while fire is not None and fire >= since and len(found) < most:
        found.append(fire)
        fire = spec.previous(fire)
    return found, fire is None or fire < since
