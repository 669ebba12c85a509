"""What happens to the schema under a node."""

from __future__ import annotations

from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class SchemaMoved(Event):
    """Somebody has migrated the schema; the node's statements follow."""

    before: str
    revision: str

    def sentence(self) -> str:
        """Says from where to where."""
        return f"the schema went from revision {self.before} to {self.revision}"
