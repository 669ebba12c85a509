"""What became of one attempt: `Succeeded`, `Failed` or `Interrupted`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pgcron_ha.executors.context import StopReason

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
    """

    error_class: str
    message: str
    traceback: str | None = None
    retry: bool = True
    exit_status: int | None = None
    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The handler ended because it was asked or forced to stop; its work may be half done."""

    reason: StopReason
    message: str


Outcome: TypeAlias = Succeeded | Failed | Interrupted

SUCCEEDED = Succeeded()
"""Shared by all handlers that return None."""
