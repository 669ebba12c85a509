"""Goes on with workflows: ends that are not counted for their dependents yet, lists, timers, stops.

Level-triggered, on every node: a workflow is taken under the lock of its row, and one that another
node has at that moment is left to it. Nothing is lost with a node; the next look finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.batches import one_by_one
from pgcron_ha.engine.claim.dispatcher import Dispatcher
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError

WORKFLOWS: Final = 50
"""Looked at in one pass; each is a transaction of its own."""

STEPS: Final = 500
"""Ends, items or children that one transaction goes on with: some ten milliseconds."""

IDLE_SECONDS: Final = 5.0
"""Between two looks that nothing has asked for."""


@dataclass(eq=False)
class Workflows(Service):
    """Any node may advance any workflow."""

    name: ClassVar[str] = "workflows"
    _link: Link
    _session: Session
    _dispatcher: Dispatcher
    _look_at_gates: Callable[[], object]
    _newest: int | None = None
    _last: int = 0

    def __post_init__(self) -> None:
        super().__init__(IDLE_SECONDS)

    def joined(self) -> None:
        """A new incarnation has offered nothing yet."""
        self._newest = None
        self.wake()

    async def run_once(self) -> float | None:
        """One look, and a transaction for each workflow that it finds."""
        [found] = await self._link.rows(
            "workflows_to_advance", most=WORKFLOWS, aside=self.aside.waiting(), after=self._last
        )
        if found["newest"] != self._newest:
            await self._learn(found["newest"])
        is_full = len(found["workflows"]) >= WORKFLOWS
        is_more = is_full or self._last > 0
        # Those with higher numbers have their turn, however much these have to do yet.
        self._last = found["workflows"][-1] if is_full else 0

        async def advance(workflow: int) -> None:
            nonlocal is_more
            is_more |= await self._link.value("advance_workflow", workflow=workflow, most=STEPS)
            self.aside.forget(workflow)

        await one_by_one(found["workflows"], advance, self._failed)
        if is_more:
            return 0
        seconds = self.interval if found["seconds"] is None else found["seconds"]
        return max(0.001, min(self.interval, seconds))

    async def _learn(self, newest: int) -> None:
        """Workflows that were defined since the last look, or before this incarnation: every node
        offers all of them.
        """
        names = [row["handler"] for row in await self._link.rows("workflow_names")]
        incarnation = self._session.incarnation
        if incarnation is None:
            return
        await self._link.rows("offer_handlers", incarnation=incarnation, handlers=names)
        self._newest = newest
        self._dispatcher.offer(names)
        self._look_at_gates()

    def _failed(self, workflow: int, error: PgcronError) -> None:
        self.aside.put(workflow, f"workflow run {workflow}", error)
