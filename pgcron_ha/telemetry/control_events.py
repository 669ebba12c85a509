"""What schedules do by themselves after failures."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class SchedulePausedItself(Event):
    """A schedule failed so often in a row, or its probe did, that it is paused."""

    level = logging.WARNING
    schedule: int
    note: str

    def sentence(self) -> str:
        """Says after what."""
        return f"schedule {self.schedule} is {' '.join(self.note.split())}"


@dataclass(frozen=True, slots=True)
class ProbeSucceeded(Event):
    """The probe of a schedule that failures had paused succeeded: it goes on."""

    schedule: int

    def sentence(self) -> str:
        """Says which."""
        return f"schedule {self.schedule} is resumed: its probe succeeded"
