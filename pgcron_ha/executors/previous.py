"""How the run of the fire before ended: what `Context.previous` gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pgcron_ha.executors.transaction import wait_for

if TYPE_CHECKING:
    from pgcron_ha.db.transactions import Transactions


@dataclass(frozen=True, slots=True)
class Previous:
    """The last run that had ended of an earlier fire of the same schedule."""

    run_id: int
    fire_time: datetime
    """The instant that it was for; aware, UTC."""
    outcome: str
    """succeeded, dead, lost, cancelled, expired or upstream_failed."""
    finished_at: datetime
    result: Any
    """What its handler returned; None for a run that did not succeed."""
    error: str | None


class PreviousRuns:
    """Asks the database, on the loop of the handlers."""

    def __init__(self, transactions: Transactions, loop: asyncio.AbstractEventLoop) -> None:
        self._transactions = transactions
        self._loop = loop

    async def find(self, run: int) -> Previous | None:
        """Of the run before this one."""
        row = await self._transactions.previous(run)
        if row is None:
            return None
        result = None if row["result"] is None else json.loads(row["result"])
        return Previous(
            run_id=row["run"],
            fire_time=row["fire_time"],
            outcome=row["outcome"],
            finished_at=row["finished_at"],
            result=result,
            error=row["error"],
        )

    def wait(self, run: int) -> Previous | None:
        """The same, in the thread of a plain function."""
        found: Previous | None = wait_for(self._loop, self.find(run))
        return found


class AskedPrevious:
    """``await`` it in an async handler; a plain function calls `wait`."""

    def __init__(self, runs: PreviousRuns | None, run: int) -> None:
        self._runs = runs
        self._run = run

    def __await__(self) -> Generator[Any, None, Previous | None]:
        """None: this is the first, or it is not kept any more."""
        return self._find().__await__()

    async def _find(self) -> Previous | None:
        return None if self._runs is None else await self._runs.find(self._run)

    def wait(self) -> Previous | None:
        """As `await` gives it, in a plain function. Raises InvalidInput on the event loop."""
        return None if self._runs is None else self._runs.wait(self._run)
