"""What a node tells of records that are kept no longer."""

from __future__ import annotations

from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class HistoryThinned(Event):
    """The rules of retention have gone through a day of history."""

    partition: str
    removed: int
    remaining: int

    def sentence(self) -> str:
        """Says what is left."""
        return (
            f"{self.partition}: {self.removed} run(s) removed so far by the rules of retention, "
            f"{self.remaining} kept"
        )
