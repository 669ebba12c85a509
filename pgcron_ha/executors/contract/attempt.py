"""`Attempt`: the data of one attempt of one run, and whether it was asked to stop."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from time import monotonic
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias
from uuid import UUID

from pgcron_ha.executors.contract.masking import Masker
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.operating_system import boottime

Stream: TypeAlias = Literal["stdout", "stderr", "log"]

# Of the database's text, without spaces around it: in half the time of json.loads.
_read_json: Final = json.JSONDecoder().raw_decode


class StopReason(StrEnum):
    """Why a run was asked to stop."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    SILENT = "silent"
    """It gave no line, no progress and no beat for its silence timeout."""
    GIVEN_UP = "given_up"
    """Its total time (``give_up_after``) is over, however short this attempt was."""
    LEASE_LOST = "lease_lost"
    SHUTDOWN = "shutdown"


class Stopped(BaseException):
    """Raised by `Context.check`. Like `asyncio.CancelledError` no `Exception`, so that a handler's
    ``except Exception`` around one step does not swallow it.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the run was asked to stop: {reason}")
        self.reason = reason


@dataclass(slots=True)
class RunServices:
    """What an executor has for all of its runs. ``deadline`` is the CLOCK_BOOTTIME instant at which
    the node's lease is over; from ``previous`` they learn of the run before. ``flush`` writes what
    a run has logged so far: once it is completed its lines are refused.
    """

    sink: LogSink
    flush: FlushLines | None = None
    previous: Any = None
    deadline: float = math.inf


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """What the engine and the executors know about one attempt. `Context` adds what a handler may
    do with it.
    """

    run_id: int
    run_uuid: UUID | str
    handler: str
    _args: dict[str, Any] | str
    """JSON text is parsed when it is first read."""
    attempt: int
    max_attempts: int
    queue: str
    priority: int
    schedule: str | None
    fire_time: datetime | None
    token: UUID
    fence: int

    timeout: float | None = None
    delivery: str = "at_least_once"
    origin: str = "enqueued"
    _results: dict[str, Any] | str | None = None
    """As `_args`."""
    _largest_log: int | None = None
    """Bytes that the producer of the run may log in one attempt, if it has such a limit."""
    held_since: float = field(default=0.0, init=False)
    """The CLOCK_BOOTTIME instant at which its node had its claim."""
    started_monotonic: float | None = field(default=None, init=False)
    has_ended: bool = field(default=False, init=False)
    """Whether its handler has stopped; its end may have to be reported yet."""
    stop_reason: StopReason | None = field(default=None, init=False)
    outlives_lease: bool = field(default=False, init=False)
    gave_sign: bool = field(default=False, init=False)
    keeps_args: bool = field(default=True, init=False)
    keeps_result: bool = field(default=True, init=False)
    """Whether history keeps them when it succeeds."""
    _services: RunServices | None = field(default=None, init=False)
    """None before it is given to an executor, and when it has ended."""
    _log: Any = field(default=None, init=False)
    _values: Mapping[str, Any] = field(init=False)
    """The keyword arguments of the call, once the args were checked."""
    _masker: Masker | None = field(default=None, init=False)
    """Knows its secrets: args, once they were decrypted; of an HTTP run those of its request."""
    _transaction: Any = field(default=None, init=False)
    _previous_found: dict[str, Any] | None = field(default=None, init=False)
    """Of a template that asks for it: the document of the run before."""
    _declared: dict[str, dict[str, Any]] | None = field(default=None, init=False)
    """What its handler says with its success: ``assets`` that it has updated (the metadata by
    name), and ``steps`` that it adds to its workflow, by name."""
    _work: Any = field(default=None, init=False)
    """What executes it, for its executor; None before it begins and when it has ended."""
    _batch: list[Any] | None = field(default=None, init=False)
    """The runs that one call of the handler gets, this one among them, if it takes several."""

    def __repr__(self) -> str:
        return f"<Context run={self.run_id} handler={self.handler!r} attempt={self.attempt}>"

    @property
    def args(self) -> dict[str, Any]:
        """The run's arguments: a JSON object, as the database has checked."""
        args = self._args
        if isinstance(args, str):
            args = self._args = _read_json(args)[0]
        return args

    @property
    def idempotency_key(self) -> str:
        """The run's uuid: the same for each attempt, whichever node executes it.

        The uuid of an occurrence is derived from its schedule and fire time. A retry or redrive by
        hand of an ended run makes another run, with another key.
        """
        return str(self.run_uuid)

    @property
    def results(self) -> Mapping[str, Any]:
        """Of a step of a workflow: what the steps that it comes directly after have returned, by
        their names. Steps without a result are missing; empty for other runs.
        """
        found = self._results
        if not isinstance(found, dict):
            found = self._results = json.loads(found or "{}")
        return MappingProxyType(found)

    @property
    def elapsed(self) -> float:
        """Seconds since its handler began."""
        now = monotonic()
        return now - (self.started_monotonic or now)

    def check(self) -> None:
        """Raise `Stopped` if the run was asked to stop or its lease is over.

        Call it before each outside effect: between two calls a paused machine may have lost
        the run to another node.
        """
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)
        services = self._services
        if services is not None and boottime() >= services.deadline and not self.outlives_lease:
            raise Stopped(StopReason.LEASE_LOST)


FlushLines: TypeAlias = Callable[[Attempt], Future[None]]


class LogSink(Protocol):
    """Takes the lines of runs, and how far they are. The engine's recorder is one."""

    def write(self, context: Attempt, stream: Stream, line: str) -> None:
        """Keep one line, without its line end. Thread-safe; never blocks, never raises."""

    def progress(self, context: Attempt, progress: Progress) -> None:
        """Replace the run's earlier progress. Thread-safe; never blocks, never raises."""

    def beat(self, context: Attempt) -> None:
        """Learn that the run is alive. Thread-safe; never blocks, never raises."""
