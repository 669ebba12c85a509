"""Outcomes of one attempt: `Succeeded`, `Failed` or `Interrupted`; and what a handler raises to
choose its outcome: `Retry`, `Snooze`, `Discard`, `Cancel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pgcron_ha.config.values import seconds_of
from pgcron_ha.errors import InvalidInput
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


class Committed(Succeeded):
    """The handler returned, and the run's completion was committed with what it did: the database
    knows it already.
    """


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

LONGEST_DELAY = timedelta(days=366)
"""Of a retry or a snooze that a handler asks for: the database keeps no run waiting longer."""


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
    """Raised by a handler that is too early: the run is due again ``after`` a delay (a number is
    seconds) and has used up no attempt.

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
    """Raised by a handler whose run is not needed any more: it ends cancelled, not failed."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)


def _delay(given: timedelta | float | str) -> timedelta:
    """From nothing up to `LONGEST_DELAY`; what asks for more gets that."""
    seconds = seconds_of(given)
    if math.isnan(seconds):
        raise InvalidInput(
            f"a delay is {given!r:.100}",
            "A delay is a timedelta, a number of seconds, or a text such as '90s' or '1h30m'.",
        )
    return timedelta(seconds=min(max(seconds, 0.0), LONGEST_DELAY.total_seconds()))
