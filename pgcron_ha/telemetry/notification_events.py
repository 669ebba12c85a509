"""Events of those who listen: whether notifications reach them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class NotificationsAreLost(Event):
    """No notification reaches the node: it looks for work instead."""

    level = logging.WARNING
    service: str
    why: str

    def sentence(self) -> str:
        """Says what it costs, and what helps."""
        return (
            f"{self.why}: no notification arrives, work is looked for every node.poll_interval; "
            "a listen_dsn that leads to the server itself lets it begin at once"
        )


@dataclass(frozen=True, slots=True)
class NotificationsArrive(Event):
    """They reach the node again."""

    service: str

    def sentence(self) -> str:
        """Says so."""
        return "notifications arrive again: work begins at once"


@dataclass(frozen=True, slots=True)
class EndsAreNotHeard(Event):
    """Who waits for runs is not reached by notifications, and looks instead."""

    level = logging.WARNING
    waited: float

    def sentence(self) -> str:
        """Says why, and what it costs."""
        return (
            f"no notification arrived within {self.waited:g} s (through a pooler in transaction "
            "mode none does): results are looked for twice a second; a listen_dsn that leads "
            "to the server itself brings them at once"
        )
