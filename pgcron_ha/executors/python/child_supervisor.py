"""The supervisor of the children as their loop uses it: opened when it is needed, replaced when it
was killed.
"""

from __future__ import annotations

import math
import os
import selectors
import sys
import uuid
from collections.abc import Sequence
from typing import Any, Final

from pgcron_ha.executors.process.supervisor_client import SupervisorClient

_MARK: Final = "PGCRON_CHILD"
"""The variable by which a child's orphans are known as its own."""


class ChildSupervisor:
    """``inherit`` are descriptors that stay open until the last child is gone."""

    def __init__(self, selector: selectors.BaseSelector, inherit: Sequence[int]) -> None:
        self._selector = selector
        self._inherit = tuple(inherit)
        self._client: SupervisorClient | None = None
        self._events = 0
        self._lease_sent = math.inf

    def start(self, number: int, code: str, descriptors: tuple[int, ...], grace: float) -> None:
        """Start a child that runs this Python code. Raises OSError when there is no supervisor and
        none can be started.
        """
        if self._client is None:
            self._client = SupervisorClient(self._inherit, None)
            self._selector.register(self._client.socket, selectors.EVENT_READ, self)
            self._events = selectors.EVENT_READ
            self._lease_sent = math.inf
        self._client.send(
            {
                "do": "run",
                "run": number,
                "descriptors": len(descriptors),
                "mark": _MARK,
                "argv": [sys.executable, "-c", code],
                "environment": {**_environment(), _MARK: uuid.uuid4().hex},
                "directory": None,
                "account": None,
                "timeout": None,
                "grace": grace,
                "outlives_lease": False,
            },
            descriptors,
        )

    def spare(self, number: int, is_spared: bool) -> None:
        """Whether a child lives on when the lease is over."""
        if self._client is not None:
            self._client.send({"do": "spare", "run": number, "outlives_lease": is_spared})

    def kill(self, number: int) -> None:
        """SIGKILL to a child and all that stem from it."""
        if self._client is not None:
            self._client.send({"do": "kill", "run": number})

    def renew_lease(self, deadline: float) -> bool:
        """Whether the deadline is news."""
        if self._client is None or deadline == self._lease_sent:
            return False
        self._lease_sent = deadline
        self._client.send({"do": "lease", "deadline": deadline})
        return True

    def flush(self) -> None:
        """Send what waits."""
        if self._client is not None:
            self._client.flush()
            writing = selectors.EVENT_WRITE if self._client.writing else 0
            if self._events != selectors.EVENT_READ | writing:
                self._events = selectors.EVENT_READ | writing
                self._selector.modify(self._client.socket, self._events, self)

    def receive(self) -> list[dict[str, Any]] | None:
        """What it says; None when somebody has killed it, and its children with it."""
        if self._client is None:
            return []
        messages = self._client.receive()
        if messages is None:
            self._selector.unregister(self._client.socket)
            self._client.close()
            self._client = None
        return messages

    def close(self) -> bool:
        """End it and all children; True when they are gone."""
        return self._client is None or self._client.close()


def _environment() -> dict[str, str]:
    """The node's, without its settings: its passwords are no affair of a handler's process."""
    return {name: each for name, each in os.environ.items() if not name.startswith("PGCRON_HA_")}
