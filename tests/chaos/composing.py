"""From a seed to a list of faults: pure, the same seed gives the same faults.

One to three at once, on for a log-uniform part of the lease, then a quiet gap. Nearly a third of
the episodes begin their second fault in the recovery from the first. The first episodes go
through all nemeses once, so that a short run sees each if there is time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

SHORTEST, LONGEST = 0.1, 4.0
"""Of a fault, in leases."""

SHORTEST_GAP, LONGEST_GAP = 0.3, 2.0
"""Between episodes, in leases."""

AT_ONCE: Final = (1, 2, 2, 3)
IN_RECOVERY: Final = 0.3


@dataclass(frozen=True)
class Fault:
    """One nemesis from `at` on, for `seconds`; `seed` is for its own choices."""

    number: int
    nemesis: str
    at: float
    seconds: float
    seed: int


def compose(seed: int, seconds: float, ttl: float, nemeses: Sequence[str]) -> list[Fault]:
    """Faults that begin within so many seconds, in the order of their beginning."""
    chance = random.Random(seed)
    queue: list[str] = []
    faults: list[Fault] = []
    at = 0.0
    while at < seconds:
        end = at
        begin = at
        for _ in range(chance.choice(AT_ONCE)):
            if not queue:
                queue = chance.sample(list(nemeses), len(nemeses))
            length = _log_uniform(chance, SHORTEST, LONGEST) * ttl
            length = min(length, max(SHORTEST * ttl, seconds - begin))
            faults.append(Fault(len(faults), queue.pop(), begin, length, chance.getrandbits(31)))
            end = max(end, begin + length)
            in_recovery = chance.random() < IN_RECOVERY
            begin = begin + length if in_recovery else at
            begin += chance.uniform(0.0, 0.8) * ttl
        at = end + _log_uniform(chance, SHORTEST_GAP, LONGEST_GAP) * ttl
    faults = [fault for fault in faults if fault.at < seconds]
    return sorted(faults, key=lambda fault: (fault.at, fault.number))


def _log_uniform(chance: random.Random, low: float, high: float) -> float:
    return exp(chance.uniform(log(low), log(high)))
