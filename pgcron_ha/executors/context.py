"""`Context`: what a handler is told about its run, and what it may do with it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from uuid import UUID

from pgcron_ha.config.values import parse_duration
from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.operating_system import boottime
from pgcron_ha.executors.progress import Progress, report

if TYPE_CHECKING:
    from pgcron_ha.executors.lines import RunLog
    from pgcron_ha.executors.previous import AskedPrevious, Previous, Source
    from pgcron_ha.executors.transaction import Isolation, RunTransaction, TransactionBlock

Stream: TypeAlias = Literal["stdout", "stderr", "log"]

LONGEST_DELAY = timedelta(days=366)
"""Of a retry or a snooze that a handler asks for: the database keeps no run waiting longer."""

_log_creation = threading.Lock()
_decode = json.JSONDecoder().raw_decode


class Context:
    """One attempt of one run, as its handler sees it.

    ``run_id`` and ``run_uuid`` name the run, ``handler`` is its full name (``py:report``),
    ``attempt`` counts from 1 to ``max_attempts``. ``schedule`` is the schedule's name and
    ``fire_time`` the aware UTC instant of the occurrence; both are None for enqueued runs.
    ``token`` is this claim's fence in the database; ``fence`` is a number that only grows, for
    outside stores that must refuse an older holder. ``idempotency_key`` is the same for every
    attempt. ``timeout`` is in seconds, None means no limit. ``delivery`` is ``at_least_once``,
    ``at_most_once`` or ``transactional``. ``origin`` is how the run came about: ``schedule`` (a
    fire), ``backfill``, ``manual`` (the schedule was run by hand), ``enqueued``, ``rerun`` (tried
    again by hand, or by a backfill) or ``redrive``. ``started_monotonic`` is the `time.monotonic`
    instant at which the handler began, ``stop_reason`` why it was asked to stop; both are None
    before.
    ``outlives_lease`` says that it goes on while its node can't renew its lease.
    ``gave_sign`` becomes True when it prints, reports or beats: the engine takes it back.
    """

    __slots__ = (
        "_args",
        "_idempotency_key",
        "_lease",
        "_log",
        "_pass_beat",
        "_previous",
        "_previous_found",
        "_sink",
        "_transaction",
        "_values",
        "_work",
        "attempt",
        "delivery",
        "fence",
        "fire_time",
        "gave_sign",
        "handler",
        "max_attempts",
        "origin",
        "outlives_lease",
        "priority",
        "queue",
        "run_id",
        "run_uuid",
        "schedule",
        "started_monotonic",
        "stop_reason",
        "timeout",
        "token",
    )

    def __init__(
        self,
        run_id: int,
        run_uuid: UUID | str,
        handler: str,
        args: dict[str, Any] | str,
        attempt: int,
        max_attempts: int,
        queue: str,
        priority: int,
        schedule: str | None,
        fire_time: datetime | None,
        token: UUID,
        fence: int,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        delivery: str = "at_least_once",
        origin: str = "enqueued",
    ) -> None:
        """``args`` may be JSON text: it is parsed when it is first read."""
        self.run_id = run_id
        self.run_uuid = run_uuid
        self.handler = handler
        self._args = args
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.queue = queue
        self.priority = priority
        self.schedule = schedule
        self.fire_time = fire_time
        self.token = token
        self.fence = fence
        self._idempotency_key = idempotency_key
        self.timeout = timeout
        self.delivery = delivery
        self.origin = origin
        self.started_monotonic: float | None = None
        self.stop_reason: StopReason | None = None
        self.outlives_lease = False
        self.gave_sign = False
        self._sink: LogSink | None = None
        self._lease: Lease | None = None
        self._log: RunLog | None = None
        self._values: Mapping[str, Any]  # of the call, once the args were judged
        self._transaction: RunTransaction | None = None
        self._previous: Source = None
        self._previous_found: Previous | None = None  # of a template that asks for it
        self._work: Any = None
        self._pass_beat: Callable[[Context], None] | None = None

    def __repr__(self) -> str:
        return f"<Context run={self.run_id} handler={self.handler!r} attempt={self.attempt}>"

    @property
    def args(self) -> dict[str, Any]:
        """The run's arguments, a JSON object. Raises `InvalidInput` when they are none."""
        if isinstance(self._args, str):
            self._args = _parse_args(self._args)
        return self._args

    @property
    def idempotency_key(self) -> str:
        """The run's uuid: the same for each attempt, whichever node executes it.

        That of an occurrence is made of its schedule and fire time. Who retries or redrives an
        ended run by hand makes another run, with another key.
        """
        return self._idempotency_key or str(self.run_uuid)

    def check(self) -> None:
        """Raise `Stopped` if the run was asked to stop or its lease is over.

        Call it before each outside effect: between two calls a paused machine may have lost
        the run to another node.
        """
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)
        lease = self._lease
        if lease is not None and boottime() >= lease.deadline and not self.outlives_lease:
            raise Stopped(StopReason.LEASE_LOST)

    def connection(self, isolation: Isolation = "read_committed") -> TransactionBlock:
        """A connection to the product's database, inside the transaction that completes this run.

        ``async with context.connection() as connection`` gives an asyncpg connection, a plain
        ``with`` (in plain functions) one whose ``execute``, ``fetch``, ``fetchrow``, ``fetchval``
        and ``executemany`` wait. What is done there is committed together with the run's
        completion when the handler returns, and only if this claim still holds the run: once,
        whatever dies. It is rolled back when the handler fails, and what one block did when the
        block fails. The transaction is not ended by the handler; an idle one is ended by the
        server after a minute. Raises `InvalidInput` for a run with another delivery.
        """
        if self._transaction is None:
            raise InvalidInput(
                f"run {self.run_id} has no transaction: its delivery is {self.delivery}",
                "Only with transactional, and in a py: handler of the node's own process, effects"
                " and completion are committed together.",
                "Ask for the run, or define its schedule, with delivery => 'transactional'.",
            )
        from pgcron_ha.executors.transaction import TransactionBlock

        return TransactionBlock(self._transaction, isolation)

    def previous(self) -> AskedPrevious:
        """How the run of the schedule's fire before this one ended, and what it returned.

        ``await context.previous()`` gives a `pgcron_ha.executors.previous.Previous`, in a plain
        function ``context.previous().wait()``; None for the first, and for runs without a
        schedule. Runs by hand and skipped fires are passed over. Raises DatabaseUnavailable, and
        `InvalidInput` where the handler is no ``py:`` one.
        """
        from pgcron_ha.executors.previous import AskedPrevious, PreviousRuns

        if self.schedule is None:
            return AskedPrevious(None, self.run_id)
        if self._previous is None:
            raise InvalidInput(
                f"run {self.run_id} can't ask for the one before it",
                "Only py: handlers of a node can; templates have previous = true instead.",
                "Ask in SQL: pgcron.previous_run(schedule, fire_time).",
            )
        return AskedPrevious(PreviousRuns(*self._previous), self.run_id)

    def log(self, line: str, stream: Stream = "log") -> None:
        """Add to the run's log; a text of several lines becomes several. Thread-safe."""
        log = self._open_log()
        if log is not None:
            for part in str(line).split("\n"):
                log.write_line(stream, part)

    def beat(self) -> None:
        """Say that the run is alive, as often as you like: its silence timeout begins anew.

        So does it with each line and with progress. Thread-safe.
        """
        self.gave_sign = True
        if self._pass_beat is not None:
            self._pass_beat(self)

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the run is, as often as you like. Thread-safe.

        The latest word is kept, written at most once a second, and shown while the run executes.
        What is no finite number from 0 on is not told; a note has one line of 200 characters.
        """
        self.gave_sign = True
        if self._sink is not None:
            report(self, self._sink, done, total, note)

    def _open_log(self) -> RunLog | None:
        """The run's log, made when it is first written to; None outside an executor."""
        if self._log is None and self._sink is not None:
            from pgcron_ha.executors.lines import RunLog

            with _log_creation:
                if self._log is None:
                    self._log = RunLog(self, self._sink)
        return self._log


class StopReason(StrEnum):
    """Why a run was asked to stop."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    SILENT = "silent"
    """It printed, reported and beat nothing for its silence timeout."""
    GIVEN_UP = "given_up"
    """Its time in all is over, however little of it this attempt had."""
    LEASE_LOST = "lease_lost"
    SHUTDOWN = "shutdown"


class Stopped(BaseException):
    """Raised by `Context.check`. Like `asyncio.CancelledError` no `Exception`, so that a handler's
    ``except Exception`` around one step does not swallow it.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the run was asked to stop: {reason}")
        self.reason = reason


class Retry(Exception):
    """Raised by a handler that wants another attempt, ``after`` a delay or as its policy says.

    Whatever the policy says of causes: only the number of attempts and ``retry_for`` bound it. A
    number is seconds; a text has its unit, such as ``5m``.
    """

    def __init__(
        self, after: timedelta | float | str | None = None, message: str = "retry asked for"
    ) -> None:
        super().__init__(message)
        self.after = None if after is None else _delay(after)


class Snooze(Exception):
    """Raised by a handler whose time has not come: the run comes back ``after`` a delay (a number
    is seconds) without having used up an attempt.

    A run is snoozed 1000 times at most (``snoozes`` of its retry policy), and not longer than its
    ``retry_for``; then it is dead. So is one that may be executed at most once.
    """

    def __init__(
        self, after: timedelta | float | str, message: str = "snoozed by the handler"
    ) -> None:
        super().__init__(message)
        self.after = _delay(after)


class Discard(Exception):
    """Raised by a handler that knows that no further attempt can help: the run is dead."""

    def __init__(self, message: str = "discarded by the handler") -> None:
        super().__init__(message)


class Cancel(Exception):
    """Raised by a handler whose run is not wanted any more: it ends cancelled, as no failure."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)


class LogSink(Protocol):
    """Takes the lines of runs, and how far they are. The engine's recorder is one."""

    def write(self, context: Context, stream: Stream, line: str) -> None:
        """Keep one line, without its line end. Thread-safe; never blocks, never raises."""

    def progress(self, context: Context, progress: Progress) -> None:
        """Keep it in place of what the run said before. Thread-safe; never blocks, never raises."""


class Lease:
    """The CLOCK_BOOTTIME instant at which the node's lease is over, shared by its runs."""

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline = math.inf


def _delay(given: timedelta | float | str) -> timedelta:
    """From nothing up to `LONGEST_DELAY`; what asks for more gets that."""
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    else:
        try:
            seconds = parse_duration(given) if isinstance(given, str) else float(given)
        except (TypeError, ValueError):
            seconds = math.nan
    if math.isnan(seconds):
        raise InvalidInput(
            f"a delay is {given!r:.100}",
            "A delay is a timedelta, a number of seconds, or a text such as '90s' or '1h30m'.",
        )
    return timedelta(seconds=min(max(seconds, 0.0), LONGEST_DELAY.total_seconds()))


def _parse_args(text: str) -> dict[str, Any]:
    if text == "{}":
        return {}
    try:
        args = _parse_json(text)
    except ValueError as error:
        raise InvalidInput(
            f"the args {text[:80]!r} are not JSON", str(error), "args must be a JSON object"
        ) from None
    except RecursionError:
        raise InvalidInput(
            f"the args {text[:80]!r} are nested too deeply to be read",
            "Python reads JSON of at most about 1,000 levels",
            "nest the args less deeply",
        ) from None
    if not isinstance(args, dict):
        raise InvalidInput(
            f"the args {text[:80]!r} are no JSON object",
            "the keys of args are the names of the handler's parameters",
            'write {"name": value}',
        )
    return args


def _parse_json(text: str) -> Any:
    """As `json.loads`; much quicker for text without spaces around it, as PostgreSQL writes it."""
    try:
        value, end = _decode(text)
    except ValueError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)
