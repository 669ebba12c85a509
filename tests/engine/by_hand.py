"""An executor whose runs end when the test says so, and claimed rows without a database."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Done,
    Feed,
    Interrupted,
    Outcome,
    StopReason,
)


class ByHand:
    """Keeps what it was given until `end`. A stop is noted; a kill ends it if `may_kill`."""

    kind = "py"

    def __init__(self, done: Done, feed: Feed, may_kill: bool = True) -> None:
        self.executing: dict[int, Context] = {}
        self.stopped: list[tuple[int, StopReason]] = []
        self.killed: list[int] = []
        self.may_kill = may_kill
        self._done = done
        self._feed = feed

    def handlers(self) -> frozenset[str]:
        return frozenset({"py:work"})

    def start(self, contexts: Sequence[Context]) -> None:
        for context in contexts:
            self.executing[context.run_id] = context

    def begin(self, run: int, at: float) -> None:
        """Its handler has begun at this `time.monotonic` instant."""
        self.executing[run].started_monotonic = at

    def end(self, run: int, outcome: Outcome = SUCCEEDED) -> None:
        """The handler of this run has stopped; its slot takes the next one."""
        context = self.executing.pop(run)
        for each in context._batch or (context,):
            self._done(each, outcome)
        following = self._feed()
        if following is not None:
            self.executing[following.run_id] = following

    def stop(self, context: Context, reason: StopReason) -> None:
        if context.stop_reason is None:
            context.stop_reason = reason
            self.stopped.append((context.run_id, reason))

    def kill(self, context: Context) -> bool:
        self.killed.append(context.run_id)
        if self.may_kill and context.run_id in self.executing:
            assert context.stop_reason is not None
            self.end(context.run_id, Interrupted(context.stop_reason, "killed"))
        return self.may_kill

    def renew_lease(self, deadline: float) -> None:
        pass

    async def close(self, grace: float) -> None:
        pass


def row(run: int, **columns: Any) -> Any:
    """A claimed row, as ``claim`` returns it."""
    return {
        "id": run,
        "uuid": uuid.uuid5(uuid.NAMESPACE_OID, str(run)),
        "handler": "py:work",
        "args": "{}",
        "attempt": 1,
        "max_attempts": 5,
        "queue": "default",
        "priority": 5,
        "schedule": None,
        "fire_time": None,
        "token": uuid.uuid4(),
        "fence": run,
        "timeout": None,
        "delivery": "at_least_once",
        "due": 0.0,
        "origin": "enqueued",
        "concurrency_key": None,
        "weight": 1,
        "overlap_of": None,
        "lost_early": 1,
        "results": None,
        "largest_log": None,
        **columns,
    }


def rows(*runs: int) -> list[Any]:
    """Claimed rows with nothing special about them."""
    return [row(run) for run in runs]
