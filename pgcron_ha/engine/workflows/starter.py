"""What "executes" a workflow: nothing. Its claim is turned into its steps by the statement that
reports it (`pgcron_ha.engine.finish.completer`), so that it takes a slot for a moment only.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    ExecutorServices,
    StopReason,
)

KIND = "workflow"
AD_HOC = "workflow:ad_hoc"
"""The handler of workflows that are defined where they are started."""


class WorkflowStarter:
    """The executor of handlers ``workflow:NAME``, which every node has."""

    def __init__(self, services: ExecutorServices) -> None:
        self._services = services

    @property
    def kind(self) -> str:
        """The word before the colon."""
        return KIND

    def handlers(self) -> frozenset[str]:
        """Those that there are always; the others are learned from the database."""
        return frozenset({AD_HOC})

    def start(self, contexts: Sequence[Context]) -> None:
        """They are at once ready to be turned into their steps."""
        following = list(contexts)
        while following:
            context = following.pop()
            self._services.done(context, SUCCEEDED)
            if (next_one := self._services.feed()) is not None:
                following.append(next_one)

    def stop(self, context: Context, reason: StopReason) -> None:
        """Nothing of it executes."""

    def kill(self, context: Context) -> bool:
        """Nothing of it executes."""
        return True

    def renew_lease(self, deadline: float) -> None:
        """Nothing of it executes."""

    async def close(self, grace: float) -> None:
        """Nothing of it executes."""
