"""The status of a run, and which runs have ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from pgcron_ha import errors
from pgcron_ha.db.driver.calls import Call
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.model.run import RunOutcome

ended_runs: Final = Call[list[int]]("ended_runs", "run_ids")
"""Those of these runs that are not alive."""

await_runs: Final = Call[list[int]]("await_runs", "run_ids")
"""As `ended_runs`; its second column are those whose end will not be sent on the channel."""

probe_ends: Final = Call[None]("probe_end_channel")
"""Sends a notification on the channel of ends."""

_run_status: Final = Call[int]("run_status", "run_id")

_ERRORS: Final[Mapping[str, type[errors.RunNotSucceeded]]] = {
    RunOutcome.CANCELLED: errors.RunCancelled,
    RunOutcome.SKIPPED: errors.RunNotStarted,
    RunOutcome.SUPERSEDED: errors.RunNotStarted,
    RunOutcome.EXPIRED: errors.RunNotStarted,
}


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run when it was read: `state` is the live state or the outcome, instants are aware UTC.

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
    """The last progress that the handler reported, while it executes."""

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
        """The run of that id in the database of `app`."""
        made = cls(run_id)
        made._app = app
        return made

    async def status(self) -> RunStatus:
        """Its status now. Raises NotFound before the transaction that enqueued it has committed."""
        return cast(RunStatus, await self._app.run(int(self)))

    async def wait(self, timeout: float | None = None) -> RunStatus:
        """As `App.wait`."""
        return cast(RunStatus, await self._app.wait(int(self), timeout))

    async def result(self, timeout: float | None = None) -> Any:
        """As `App.result`."""
        return await self._app.result(int(self), timeout)


async def read_status(connection: Any, run_id: int, schema: str) -> RunStatus:
    """The run of that id, alive or ended. Raises NotFound."""
    row = await _run_status.row(connection, run_id, schema=schema)
    if not row:
        raise errors.NotFound(
            f"run {run_id} does not exist",
            "It was never enqueued, its transaction was rolled back, retention removed it, or "
            "another role enqueued it.",
            "`pgcron-ha runs list` lists runs; a role that may only enqueue reads its own.",
        )
    result, done, total, note = row[-4:]
    found = None if result is None else json.loads(result)
    reported = None if done is None else Progress(done, total, note)
    return RunStatus(*[*row[:-4], found, reported])


def require_success(status: RunStatus) -> RunStatus:
    """The same, if it succeeded. Raises RunFailed, RunCancelled or RunNotStarted."""
    outcome = str(status.outcome)
    if outcome == RunOutcome.SUCCEEDED:
        return status
    has_steps = status.handler.startswith("workflow:") and status.started_at is not None
    kind = _ERRORS.get(outcome, errors.RunFailed)
    raise kind(status.id, outcome, status.error, has_steps=has_steps)


def timed_out(run_id: int, timeout: float | None) -> errors.WaitTimedOut:
    """The error after waiting `timeout` seconds for a run that has not ended."""
    return errors.WaitTimedOut(
        f"run {run_id} is not over after {timeout or 0:g} s",
        "Only the waiting ended: the run goes on.",
        f"Wait longer or again; `pgcron-ha runs show {run_id}` says what it waits for.",
    )
