"""Passes claimed rows to the runner, or gives them back to the database.

A run is given back if it was claimed for a session that is over or stopping, or if it waits here
while nothing ends. So is a run that its row calls light although its handler takes several slots
here: its weight is recorded, and it waits with the heavy runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from uuid import UUID

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.claim.prefetch import Prefetch
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.engine.run.claims import claims_of, started_claims_of
from pgcron_ha.engine.run.counters import count_waits
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context, Interrupted, StopReason
from pgcron_ha.telemetry.events import RunsReleased, ServiceFailed
from pgcron_ha.telemetry.log import emit

_NOT_BEGUN: Final = "asked to stop before it began"
_STALLED: Final = "those that execute here last too long"

_LOOK_SECONDS: Final = 0.01
_LONGEST_SECONDS: Final = 10.0
"""For a handler to begin; then the watch takes over."""


@dataclass(eq=False)
class Acceptance:
    """Between the claims and the runner. ``_weights``: the handlers that take several slots here,
    by full name. ``_expect`` gets what begins here, or waits here for a slot.
    """

    _link: Link
    _session: Session
    _runner: Runner
    _prefetching: Prefetch
    _weights: Mapping[str, int]
    _expect: Callable[[Sequence[Row]], None]
    progress_at: float = float("-inf")
    """When a run last ended here, or the first of a burst was claimed."""

    async def take(self, rows: list[Row], incarnation: UUID | None) -> None:
        """Pass the rows in their order to the runner, or back to the database if this node is now
        stopping or endangered. Claims of an earlier incarnation never begin: other nodes may hold
        them.

        What may begin is with the runner before anything is waited for: until then nobody knows
        that it is held here. What is heavier here than its row says is given back.
        """
        heavy = {row["id"]: row["weight"] for row in rows if row["weight"] > 1}
        if not self._session.may_claim() or self._session.incarnation != incarnation:
            if rows and self._session.incarnation is not None:
                await self._link.rows("release_runs", **_claims(rows), weights=None)
            return
        wrong = [row for row in rows if row["handler"] in self._weights and row["id"] not in heavy]
        rows = [row for row in rows if row not in wrong]
        if rows and not self._runner.waiting:
            self.progress_at = monotonic()
            if not self._runner.executing:
                self._prefetching.begin(self.progress_at)
        count_waits(rows)
        self._expect(rows)
        self._runner.accept(rows, heavy)
        if wrong:  # what is heavier than its row says waits with the heavy runs from now on
            weights = [self._weights[row["handler"]] for row in wrong]
            # A run that was cancelled meanwhile stays this node's; the next beats find it unknown.
            if await self._link.rows("release_runs", **_claims(wrong), weights=weights):
                await self._link.rows("wake_idle_nodes")

    async def give_back(self, why: str = _STALLED, but: Container[str] = ()) -> None:
        """What was claimed ahead, so that others may have it, without runs of the handlers `but`.
        The attempt does not count; one that was cancelled meanwhile ends as that.
        """
        self._prefetching.stall(monotonic())
        contexts = self._runner.take_waiting(but)
        if not contexts:
            return
        try:
            rows = await self._link.rows("release_runs", **claims_of(contexts), weights=None)
        except PgcronError:
            self._runner.forget(contexts)  # the next beats release those that are still this node's
            raise
        given = {row["id"] for row in rows}
        self._runner.forget([context for context in contexts if context.run_id in given])
        for context in contexts:
            if context.run_id not in given:  # it was cancelled, and ends as that
                self._runner.done(context, Interrupted(StopReason.CANCELLED, _NOT_BEGUN))
        if given:
            emit(RunsReleased(len(given), why))
            await self._link.rows("wake_idle_nodes")


async def settle_orphans(link: Link, node: str, orphans: Sequence[tuple[int, UUID]]) -> None:
    """Gives back runs (id, token) that the database counts as this node's and that are unknown
    here: the answer to their claim never came. One that was asked to stop meanwhile is not given
    back and ends as cancelled. `node` is this node's name.

    Raises nothing: what could not be settled is an orphan of the next beats again.
    """
    claims = {"run_ids": [run for run, _ in orphans], "tokens": [token for _, token in orphans]}
    cancelled = {"kind": "cancelled", "retryable": False, "node_name": node}
    cancelled |= {"error_class": "Cancelled", "error": _NOT_BEGUN}
    ends = [{"run_id": run, "token": str(token), **cancelled} for run, token in orphans]
    try:
        given = await link.rows("release_runs", **claims, weights=None)
        if len(given) < len(orphans):  # those that were given back have no valid token any more
            await link.rows("fail_runs", ends=json.dumps(ends))
    except PgcronError as error:
        emit(ServiceFailed("session", f"could not give back claims: {error.message}"))
    else:
        if given:
            emit(RunsReleased(len(given), "the answer to their claim never came"))


def _claims(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {"run_ids": [row["id"] for row in rows], "tokens": [row["token"] for row in rows]}


class Preparation:
    """The runner's `prepare`, for runs that may crash a node before their handlers begin: at most
    two nodes.

    If a node dies before a run's handler was seen to begin, it is unknown whether the run was the
    cause: it may just have waited there. So the next node records that it prepares the run before
    it does anything with it, and that the handler has begun as soon as it has. If the node ends in
    between, the run is dead (`pgcron.judge_attempt`). Runs that were never lost this way cost
    nothing.
    """

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
