"""What a client is told about a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgcron_ha.db.driver.calls import fetch_row
from pgcron_ha.db.driver.statements import load
from pgcron_ha.errors import NotFound
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.model.run import RunOutcome


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run, as it stood: `state` is the live state or the outcome, instants are aware UTC.

    `error` is that of the last attempt, `result` what the handler returned (JSON).
    """

    id: int
    uuid: str
    handler: str
    schedule: str | None
    state: str
    attempt: int
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    result: Any
    progress: Progress | None = None
    """What the handler last said of how far it is, while it executes."""

    @property
    def outcome(self) -> str | None:
        """How it ended, or None while it is alive."""
        return self.state if self.state in set(RunOutcome) else None

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.outcome is not None


class EnqueuedRun(int):
    """What `App.enqueue` gives: the run's id, an integer wherever one is wanted."""

    _app: Any  # the App, which has what is below

    @classmethod
    def of(cls, run_id: int, app: Any) -> EnqueuedRun:
        """The run of that id, behind the door of `app`."""
        made = cls(run_id)
        made._app = app
        return made

    async def status(self) -> RunStatus:
        """How it stands. Raises NotFound before the transaction that enqueued it has committed."""
        status: RunStatus = await self._app.run(int(self))
        return status

    async def wait(self, timeout: float | None = None) -> RunStatus:
        """As `App.wait`."""
        status: RunStatus = await self._app.wait(int(self), timeout)
        return status

    async def result(self, timeout: float | None = None) -> Any:
        """As `App.result`."""
        return await self._app.result(int(self), timeout)


async def ended_among(connection: Any, run_ids: list[int], schema: str) -> list[int]:
    """Those of these runs that are not alive."""
    (found,) = await fetch_row(connection, load(schema)["ended_runs"], {"run_ids": run_ids})
    return list(found)


async def await_ends(
    connection: Any, run_ids: list[int], schema: str
) -> tuple[list[int], list[int]]:
    """Those of these runs that are not alive, and those whose end is not told on the channel."""
    ended, unmarked = await fetch_row(connection, load(schema)["await_runs"], {"run_ids": run_ids})
    return list(ended), list(unmarked)


async def probe_ends(connection: Any, schema: str) -> None:
    """Says a word on the channel of ends."""
    await fetch_row(connection, load(schema)["probe_end_channel"], {})


async def read_status(connection: Any, run_id: int, schema: str) -> RunStatus:
    """The run of that id, alive or ended. Raises NotFound."""
    row = await fetch_row(connection, load(schema)["run_status"], {"run_id": run_id})
    if not row:
        raise NotFound(
            f"run {run_id} does not exist",
            "It was never enqueued, its transaction was rolled back, retention removed it, or "
            "another role enqueued it.",
            "`pgcron-ha runs list` lists runs; who only enqueues reads those that it enqueued.",
        )
    result, done, total, note = row[-4:]
    found = None if result is None else json.loads(result)
    reported = None if done is None else Progress(done, total, note)
    return RunStatus(*[*row[:-4], found, reported])
