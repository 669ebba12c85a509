"""The state of a node at one moment, for probes and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """Read from memory; a node that has not begun has the default values."""

    node: str
    incarnation: str | None = None
    is_draining: bool = False
    lease_seconds: float = 0.0
    """The rest of its lease; 0 without one."""
    slots: int = 0
    executing: int = 0
    waiting: int = 0
    """Claimed runs that wait for a slot."""
    held: tuple[int, ...] = ()
    """The ids of all runs it holds."""
    handlers: int = 0
    connects: Mapping[str, int] = field(default_factory=dict)
    """How often each of its connections was made."""
    services: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """By name: seconds since the last good pass, and how many things the service has set aside."""
    is_cordoned: bool = False
    """Whether it is cordoned and takes no new runs. It is ready all the same: its services work."""

    @property
    def not_ready_because(self) -> str | None:
        """Why it does not work now; None: it works."""
        if self.is_draining:
            return "the node drains: it ends what it runs and takes nothing new"
        if self.lease_seconds <= 0:
            return "the node has no lease (yet, or the database is away)"
        return None


LookAtNode: TypeAlias = Callable[[], NodeSnapshot]
