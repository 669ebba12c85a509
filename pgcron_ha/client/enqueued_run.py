"""`EnqueuedRun`: the id of a run, and a way to wait for it."""

from __future__ import annotations

from typing import Any, Protocol

from pgcron_ha.client.run_status import RunStatus


class AsksForRuns(Protocol):
    """An `App`."""

    async def run(self, run_id: int) -> RunStatus:
        """How a run stands."""

    async def wait(self, run_id: int, timeout: float | None = None) -> RunStatus:
        """How it ended."""

    async def result(self, run_id: int, timeout: float | None = None) -> Any:
        """What it returned."""


class EnqueuedRun(int):
    """What `App.enqueue` gives: the run's id, an integer wherever one is wanted."""

    _app: AsksForRuns

    @classmethod
    def of(cls, run_id: int, app: AsksForRuns) -> EnqueuedRun:
        """The run of that id, behind the door of `app`."""
        made = cls(run_id)
        made._app = app
        return made

    async def status(self) -> RunStatus:
        """How it stands. Raises NotFound before the transaction that enqueued it has committed."""
        return await self._app.run(int(self))

    async def wait(self, timeout: float | None = None) -> RunStatus:
        """As `App.wait`."""
        return await self._app.wait(int(self), timeout)

    async def result(self, timeout: float | None = None) -> Any:
        """As `App.result`."""
        return await self._app.result(int(self), timeout)
