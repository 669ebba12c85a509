"""Runs that a node has claimed and that end by hand, up to the completer."""

from __future__ import annotations

from typing import Any

from pgcron_ha.executors.contract.base import SUCCEEDED, Outcome
from tests.db import control
from tests.engine.by_hand import ByHand
from tests.product.db import Link
from tests.product.engine import Completer, Recorder, Runner
from tests.waiting import until

SLOTS = 2000


class Ending:
    """A node's runner, recorder and completer on one link; nothing loops by itself."""

    def __init__(self, link: Link, connection: control.Connection, node: control.Node) -> None:
        self.link = link
        self.connection = connection
        self.node = node
        self.freed = 0
        self.recorder = Recorder(link)
        self.runner = Runner(SLOTS, lambda: True, lambda batch: self.completer.add(batch))
        self.executor = ByHand(self.runner.done, self.runner.feed_for("py"))
        self.runner.use({"py": self.executor})
        self.completer = Completer(link, "a node", self.runner, self.recorder, self._on_freed)

    async def claim(self, count: int = 1, **columns: Any) -> list[int]:
        """Enqueue, claim and accept so many runs."""
        await control.enqueue(self.connection, count, **columns)
        return await self.claim_due(count)

    async def claim_due(self, count: int = 1) -> list[int]:
        """Claim and accept what is due."""
        rows = await control.claim(self.connection, self.node, count)
        assert len(rows) == count
        self.runner.accept(rows)
        return sorted(row["id"] for row in rows)

    async def end(self, runs: list[int], outcome: Outcome = SUCCEEDED) -> None:
        """Their handlers stop, and the completer hears of it."""
        for run in runs:
            self.executor.end(run, outcome)
        await until("the completer heard of it", lambda: self.completer._pending)

    async def report(self) -> None:
        """The completer's passes until it knows nothing more to tell."""
        while self.completer._pending:
            await self.completer.run_once()

    def _on_freed(self) -> None:
        self.freed += 1


async def begin(link: Link, connection: control.Connection) -> Ending:
    """With a node that has joined."""
    return Ending(link, connection, await control.join(connection))
