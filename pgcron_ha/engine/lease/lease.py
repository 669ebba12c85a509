"""The node's right to its runs, judged by its own clock: pure, the clock is an argument.

The lease counts from the instant at which the last acknowledged renewal was *sent*, on
CLOCK_BOOTTIME, which goes on while a machine sleeps. The database's deadline is always later than
this one, so a node stops before anybody may take its runs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

# Parts of the time to live since the last acknowledged renewal.
SUSPECT_AT: Final = 0.5
LOST_AT: Final = 0.65
OVER_AT: Final = 0.9


class LeasePhase(IntEnum):
    """What the node may do; the values order them."""

    HELD = 0
    """Everything."""
    SUSPECT = 1
    """No new claims and no new handlers."""
    LOST = 2
    """Handlers are asked to stop."""
    OVER = 3
    """What still runs is killed."""


class Lease:
    """The lease of one incarnation. Read from several threads: one assignment changes it."""

    __slots__ = ("renewed_at", "ttl")

    def __init__(self, ttl: float) -> None:
        """`ttl` in seconds. A lease that was never renewed is over."""
        self.ttl = ttl
        self.renewed_at = float("-inf")

    def renew(self, sent_at: float) -> None:
        """The renewal sent at this CLOCK_BOOTTIME instant was acknowledged."""
        self.renewed_at = max(self.renewed_at, sent_at)

    def end(self) -> None:
        """The incarnation was declared dead, or left."""
        self.renewed_at = float("-inf")

    def age(self, now: float) -> float:
        """Seconds since the last acknowledged renewal was sent."""
        return now - self.renewed_at

    def phase(self, now: float) -> LeasePhase:
        """What the node may do at `now`."""
        part = self.age(now) / self.ttl
        if part < SUSPECT_AT:
            return LeasePhase.HELD
        if part < LOST_AT:
            return LeasePhase.SUSPECT
        return LeasePhase.LOST if part < OVER_AT else LeasePhase.OVER

    def is_held(self, now: float) -> bool:
        """Whether claims and handlers may begin."""
        return now - self.renewed_at < SUSPECT_AT * self.ttl

    def deadline(self) -> float:
        """The instant at which everything must be dead."""
        return self.renewed_at + OVER_AT * self.ttl
