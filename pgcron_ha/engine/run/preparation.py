"""Runs that may crash a node before their handlers begin: at most two nodes.

If a node dies before a run's handler was seen to begin, it is unknown whether the run was the
cause: it may just have waited there. So the next node records that it prepares the run before it
does anything with it, and that the handler has begun as soon as it has. If the node ends in
between, the run is dead (`pgcron.judge_attempt`). Runs that were never lost this way cost
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.run.claims import claims_of, started_claims_of
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context

_LOOK_SECONDS: Final = 0.01
_LONGEST_SECONDS: Final = 10.0
"""For a handler to begin; then the watch takes over."""


class Preparation:
    """The runner's `prepare`."""

    def __init__(self, link: Link, runner: Runner) -> None:
        self._link = link
        self._runner = runner
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, contexts: Sequence[Context]) -> None:
        """They have their slots, and begin when the database knows of it."""
        task = asyncio.get_running_loop().create_task(self._prepare(contexts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _prepare(self, contexts: Sequence[Context]) -> None:
        suspected: set[int] = set()
        try:
            # While the database is away nothing is known of them, and they must not wait.
            with suppress(PgcronError):
                rows = await self._link.rows("prepare_runs", **claims_of(contexts))
                suspected = {row["id"] for row in rows}
        finally:
            self._runner.begin(contexts)
        with suppress(PgcronError):  # the watch marks what lasts
            await self._mark([each for each in contexts if each.run_id in suspected])

    async def _mark(self, contexts: Sequence[Context]) -> None:
        """Records each run's handler as begun, as soon as it is."""
        end = monotonic() + _LONGEST_SECONDS
        while contexts and monotonic() < end:
            begun = [each for each in contexts if each.started_monotonic is not None]
            if begun:
                await self._link.rows("mark_started", **started_claims_of(begun))
            contexts = [
                each for each in contexts if each not in begun and self._runner.holds(each.run_id)
            ]
            await asyncio.sleep(_LOOK_SECONDS)
