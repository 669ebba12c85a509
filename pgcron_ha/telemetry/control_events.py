"""What schedules do by themselves: after failures, and when the rules of time zones change."""

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


@dataclass(frozen=True, slots=True)
class TzdataTaken(Event):
    """This node's tzdata decides from now on, for the whole cluster."""

    tzdata: str
    before: str | None

    def sentence(self) -> str:
        """Says what becomes of the fires that are made already."""
        if self.before is None:
            return f"schedules follow tzdata {self.tzdata}"
        return (
            f"schedules follow tzdata {self.tzdata} instead of {self.before}: "
            "those with a time zone have their fires ahead made anew"
        )
