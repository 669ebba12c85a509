"""Events of what a service goes on without."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pgcron_ha.telemetry.events import Event


@dataclass(frozen=True, slots=True)
class WasSetAside(Event):
    """A service goes on without a run, a schedule or another row that stops its statements."""

    level = logging.WARNING
    service: str
    what: str
    error: str

    def sentence(self) -> str:
        """Says which, and why."""
        return f"{self.service} goes on without {self.what}, and tries it again: {self.error}"


@dataclass(frozen=True, slots=True)
class IsNoLongerAside(Event):
    """What a service went on without went through, or is gone."""

    service: str
    what: str
    seconds: float

    def sentence(self) -> str:
        """Says which, and how long it took."""
        return f"{self.service}: {self.what} is settled after {self.seconds:.1f} s"
