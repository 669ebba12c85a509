"""What becomes of backfills."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class BackfillIsOver(Event):
    """A backfill is done, or has stopped: its last run has ended."""

    backfill: int
    schedule: str
    state: str

    def sentence(self) -> str:
        """Says which, and how to see what came of it."""
        ended = "is done" if self.state == "done" else "has stopped"
        return f"backfill {self.backfill} of schedule {self.schedule!r} {ended}"


@dataclass(frozen=True, slots=True)
class BackfillCantGoOn(Event):
    """The instants of a backfill can't be computed by this version, or are too many."""

    level = logging.ERROR
    backfill: int
    schedule: str
    error: str

    def sentence(self) -> str:
        """Says why."""
        return f"backfill {self.backfill} of schedule {self.schedule!r} can't go on: {self.error}"


@dataclass(frozen=True, slots=True)
class BackfillIsPaused(Event):
    """A run of a backfill failed that the next one depends on: somebody has to decide."""

    level = logging.WARNING
    backfill: int
    schedule: str
    error: str

    def sentence(self) -> str:
        """Says which run."""
        return f"backfill {self.backfill} of schedule {self.schedule!r} is paused: {self.error}"
