"""What became of one attempt: `Succeeded`, `Failed` or `Interrupted`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pgcron_ha.executors.contract.attempt import StopReason

MAX_RESULT_BYTES = 256 * 1024
"""The bound of a result as JSON text; the same as that of args."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; ``text`` is ``result`` as JSON, encoded once for the database."""

    result: Any = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, exited with a status other than 0, or could not be called at all.

    ``retry`` False means that no further attempt can help. ``after`` is the delay the handler asked
    for, None leaves it to the retry policy. ``exit_status`` is -N for a process killed by signal N.
    ``snooze`` brings the run back ``after`` a delay without having used up an attempt. ``causes``
    are more names under which a retry policy may know the failure, the most specific first: base
    classes, ``http:503`` and ``http:5xx``; error class and exit status need not be repeated.
    ``fingerprint`` is the same for failures of one kind; None lets it be made of handler, class and
    message.
    """

    error_class: str
    message: str
    traceback: str | None = None
    retry: bool = True
    exit_status: int | None = None
    after: timedelta | None = None
    snooze: bool = False
    causes: tuple[str, ...] = ()
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The handler ended because it was asked or forced to stop; its work may be half done."""

    reason: StopReason
    message: str


@dataclass(frozen=True, slots=True)
class Committed(Succeeded):
    """The handler returned, and the run's completion was committed with what it did: the database
    knows it already.
    """


@dataclass(frozen=True, slots=True)
class Doubtful(Failed):
    """The answer to a COMMIT with the run's completion got lost: a success if the database has the
    completion, else a failure that left nothing.
    """


def stopped_early(reason: StopReason) -> Interrupted:
    """Of a run that was stopped before its handler was called."""
    return Interrupted(reason, "stopped before it began")


Outcome: TypeAlias = Succeeded | Failed | Interrupted

SUCCEEDED = Succeeded()
"""Shared by all handlers that return None."""
