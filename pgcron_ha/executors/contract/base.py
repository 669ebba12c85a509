"""The contract between the engine and what executes a handler.

The engine gives an executor `Context` objects and gets one outcome for each of them. A handler's
author needs `Context`, `Retry`, `Snooze`, `Discard`, `Cancel` and `Stopped`; the rest is for the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from pgcron_ha.executors.contract.attempt import FlushLines
from pgcron_ha.executors.contract.attempt import LogSink as LogSink
from pgcron_ha.executors.contract.attempt import StopReason as StopReason
from pgcron_ha.executors.contract.attempt import Stream as Stream
from pgcron_ha.executors.contract.context import Context as Context
from pgcron_ha.executors.contract.outcome import MAX_RESULT_BYTES as MAX_RESULT_BYTES
from pgcron_ha.executors.contract.outcome import SUCCEEDED as SUCCEEDED
from pgcron_ha.executors.contract.outcome import Committed as Committed
from pgcron_ha.executors.contract.outcome import Doubtful as Doubtful
from pgcron_ha.executors.contract.outcome import Failed as Failed
from pgcron_ha.executors.contract.outcome import Interrupted as Interrupted
from pgcron_ha.executors.contract.outcome import Outcome as Outcome
from pgcron_ha.executors.contract.outcome import Succeeded as Succeeded

Done = Callable[[Context, Outcome], None]
"""Called exactly once for each started context, from any thread, after the handler has stopped."""

Feed = Callable[[], "Context | None"]
"""Gives the next waiting context for this executor, or None. Called from any thread."""

Failure = Callable[[BaseException], None]
"""Called, from any thread, by an executor that can't serve its runs any more. The node ends, so
that another process takes its place.
"""


@dataclass(frozen=True, slots=True)
class ExecutorServices:
    """The engine's side of one executor, and where it may leave files.

    ``slots`` is how many runs it gets at most at the same time. ``directory`` is this node's alone
    and outlives it. A child process that inherits the descriptors ``inherit`` keeps the node's
    successor from starting until the child is gone. Call ``failed`` when an error has lost a slot:
    the node ends. ``flush`` writes the lines of a run before it is completed by its own
    transaction.
    """

    done: Done
    feed: Feed
    sink: LogSink
    slots: int
    directory: Path | None = None
    inherit: tuple[int, ...] = ()
    failed: Failure = lambda error: None  # where no node has made it
    flush: FlushLines | None = None


class Executor(Protocol):
    """Executes runs of one kind of handler.

    An executor works from its construction until `close`. `done` is called once for each context
    given to `start` or taken from `feed`, and only after its handler has stopped: the task is
    finished, the function has returned, the process group is empty. Right after `done` the
    executor asks `feed` for the next context of the slot that became free.
    """

    @property
    def kind(self) -> str:
        """The word before the colon in the names of its handlers: ``py``, ``shell``."""

    def handlers(self) -> frozenset[str]:
        """The full names of the handlers it executes, such as ``py:report``."""

    def start(self, contexts: Sequence[Context]) -> None:
        """Begin all of them. Never blocks; a refusal, too, is reported through `done`."""

    def stop(self, context: Context, reason: StopReason) -> None:
        """Ask a run to stop. Thread-safe; the first reason stays, later calls do nothing."""

    def kill(self, context: Context) -> bool:
        """End a run by force. Thread-safe; False where that is impossible (thread, event loop)."""

    def renew_lease(self, deadline: float) -> None:
        """Everything must be dead at this CLOCK_BOOTTIME instant, unless renewed before it."""

    async def close(self, grace: float) -> None:
        """Stop all runs, wait at most ``grace`` seconds, kill the rest, leave nothing behind."""


LeaseLoss: TypeAlias = Literal["stop", "finish"]
"""``stop``: it is asked to stop, then killed, before another node may begin its run.

``finish``: it goes on. Its end is reported when the database is back, and counts if this node still
owns the run; else the run is stopped then. Another node may have begun the run meanwhile.
"""


@dataclass(frozen=True, slots=True)
class HandlerPolicy:
    """How a node treats the runs of one handler, as code or a template says.

    A run takes `weight` of the node's slots; with `batch` one call takes up to so many runs.
    History keeps the args and the result of a run that succeeded, unless `keep_args` or
    `keep_result` is False; other runs keep their args, so that they can be tried again. A run that
    was asked to stop is killed `grace` seconds later.
    """

    weight: int = 1
    batch: int | None = None
    on_lease_loss: LeaseLoss = "stop"
    keep_args: bool = True
    keep_result: bool = True
    grace: float = 10.0


DEFAULT_POLICY: Final = HandlerPolicy()
