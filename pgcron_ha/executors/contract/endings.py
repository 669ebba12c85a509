"""What a handler raises to say how its attempt ends: `Retry`, `Snooze`, `Discard`, `Cancel`."""

from __future__ import annotations

import math
from datetime import timedelta

from pgcron_ha.config.values import parse_duration
from pgcron_ha.errors import InvalidInput

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
