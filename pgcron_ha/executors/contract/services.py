"""What an executor is given when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgcron_ha.executors.contract.attempt import LogSink
from pgcron_ha.executors.contract.base import Done, Failure, Feed, ignore_failure


@dataclass(frozen=True, slots=True)
class ExecutorServices:
    """The engine's side of one executor, and where it may leave files.

    ``slots`` bounds how many runs it is given at the same time. ``directory`` belongs to this node
    alone and outlives it. An open descriptor of ``inherit`` in a child process keeps the node's
    successor from beginning before the child is gone, too. Call ``failed`` when a thread that
    serves the runs has ended by an error: the node ends.
    """

    done: Done
    feed: Feed
    sink: LogSink
    slots: int
    directory: Path | None = None
    inherit: tuple[int, ...] = ()
    failed: Failure = ignore_failure
