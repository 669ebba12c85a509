"""The instants of a schedule that a backfill fills in: which come next, and how many there are.

A backfill's range begins at ``since`` and ends before ``until``. Pure: the same arguments give the
same instants on every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pgcron_ha.errors import InvalidInput, TooLarge
from pgcron_ha.spec.spec import Spec

MOST_INSTANTS: Final = 1_000_000
LONGEST_RANGE: Final = timedelta(days=3660)

# So that other work can run between stretches: one takes some tens of milliseconds where each
# instant is found by searching.
_STRETCHES: Final = 200
_INSTANT_EARLIER: Final = timedelta(microseconds=-1)


@dataclass(frozen=True)
class BackfillRange:
    """How many instants of a schedule a range has, and the first and last of them."""

    instants: int
    first: datetime | None
    last: datetime | None


def measure(spec: Spec, since: datetime, until: datetime, now: datetime) -> BackfillRange:
    """What a backfill of the range would fill in. Raises `InvalidInput` for a range that is empty,
    too long, or not over yet, `TooLarge` as `count`.
    """
    _check_range(since, until, now)
    instants = sum(count(spec, since, until))
    first = spec.next(since + _INSTANT_EARLIER) if instants else None
    return BackfillRange(instants, first, spec.previous(until) if instants else None)


def count(spec: Spec, since: datetime, until: datetime) -> Iterator[int]:
    """How many instants the range has, stretch by stretch: add them up. Raises `TooLarge` for more
    than `MOST_INSTANTS`.
    """
    is_arithmetic = len(spec.rules) == 1 and not spec.exclusions
    step = (until - since) / (1 if is_arithmetic else _STRETCHES)
    begin, instants = since, 0
    while begin < until:
        end = min(begin + max(step, timedelta(seconds=1)), until)
        counted = spec.count(begin + _INSTANT_EARLIER, end + _INSTANT_EARLIER, MOST_INSTANTS)
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
        begin = since + _INSTANT_EARLIER if reached is None else reached
        found = spec.between(begin, until + _INSTANT_EARLIER, most)
        return found, len(found) < most
    found = []
    fire = spec.previous(until if reached is None else reached)
    while fire is not None and fire >= since and len(found) < most:
        found.append(fire)
        fire = spec.previous(fire)
    return found, fire is None or fire < since


def _check_range(since: datetime, until: datetime, now: datetime) -> None:
    first, end = (each.astimezone(UTC) for each in (since, until))
    fact = f"a backfill from {first:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"
    if since >= until:
        rule = "Its range begins at since and ends before until, which is later."
        hint = "Write a since that is before until."
    elif until > now:
        rule = "Only instants that have passed are filled in; the others are the schedule's own."
        hint = "Write an until that is not later than now, or leave it out."
    elif until - since > LONGEST_RANGE:
        rule = f"Its range spans up to {LONGEST_RANGE.days} days (ten years)."
        hint = "Ask for several ranges, one after the other."
    else:
        return
    raise InvalidInput(fact, rule, hint)
