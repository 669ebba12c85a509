"""What becomes of the time zones' data."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class ZonesTaken(Event):
    """This node has brought newer zone data, with which the whole cluster computes from now on."""

    tzdata: str
    before: str | None
    changed: int
    differing: str

    def sentence(self) -> str:
        """Says which zones have other clocks to come."""
        clocks = f"other clocks in {self.differing}" if self.differing else "no clock differs"
        instead = f" instead of {self.before}" if self.before else ""
        return f"the cluster computes with time zones of {self.tzdata}{instead}: {clocks}"


@dataclass(frozen=True, slots=True)
class ZoneDataIsOlder(Event):
    """This node's zone data are older than the cluster's, which it reads from the database."""

    level = logging.WARNING
    installed: str
    tzdata: str

    def sentence(self) -> str:
        """Says what to do."""
        return (
            f"the tzdata installed here is {self.installed}, the cluster computes with "
            f"{self.tzdata}: this node does, too, and should be updated"
        )


@dataclass(frozen=True, slots=True)
class ZoneChangeApplied(Event):
    """All schedules of a zone whose rules have changed fire by the new ones."""

    zone: str
    tzdata: str
    schedules: int

    def sentence(self) -> str:
        """Says how many had runs ahead that were made again."""
        word = "schedule" if self.schedules == 1 else "schedules"
        return (
            f"{self.zone} has the clocks of {self.tzdata}: what was made ahead of {self.schedules} "
            f"{word} is made again"
        )
