"""Retry policies as callers write them, judged before the database is asked.

A policy is a mapping (or its JSON text) whose keys are `RetryPolicy`'s; what it leaves out has the
default. ``migrations/sql/retry_policy.sql`` says what each key does and is the judge of
what comes by SQL. Here durations are timedelta, seconds, or texts such as ``90s``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypedDict

from pgcron_ha.config import seconds_of
from pgcron_ha.errors import InvalidInput, TooLarge

Delay: TypeAlias = timedelta | float | str

MOST_BYTES: Final = 8192
MOST_CAUSES: Final = 50
MOST_DELAYS: Final = 100
MOST_SNOOZES: Final = 1000
LONGEST_DELAY: Final = timedelta(days=366)
LONGEST_BASE: Final = timedelta(days=1)
LONGEST_CAP: Final = timedelta(days=30)
BACKOFFS: Final = ("exponential", "linear", "fixed")

_CAUSE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:]*")
_CAUSE_RULE: Final = (
    "A cause is the name of an error's class, exit:N, signal:N, http:N, an SQLSTATE, failed, "
    f"timed_out or lease_lost; there may be {MOST_CAUSES}."
)
_HINT: Final = (
    'Write for example {"backoff": "linear", "base": "10s", "retry_for": "2h", '
    '"discard_on": ["ValueError"]}, or leave it out.'
)


class RetryPolicy(TypedDict, total=False):
    """How a run is retried.

    ``backoff``: exponential, linear, fixed, or a list of delays; ``base`` and ``cap`` instead of
    ``retry_base`` and ``retry_cap``; ``jitter``; ``retry_for``: no retry begins later than this
    after the first attempt; ``retry_on``, ``discard_on``: causes; ``snooze_on``: causes and their
    delays; ``snoozes``: how often at most.
    """

    backoff: str | Sequence[Delay]
    base: Delay
    cap: Delay
    jitter: bool
    retry_for: Delay
    retry_on: Sequence[str]
    discard_on: Sequence[str]
    snooze_on: Mapping[str, Delay]
    snoozes: int


def retry_text(policy: object) -> str | None:
    """The policy as the JSON text that SQL takes; None stays None.

    Raises InvalidInput and TooLarge.
    """
    if policy is None:
        return None
    given = _parsed(policy) if isinstance(policy, str) else policy
    if not isinstance(given, Mapping):
        raise _refusal(f"it is a {type(given).__name__}", "A retry policy is an object of keys.")
    unknown = [str(key) for key in given if key not in RetryPolicy.__annotations__]
    if unknown:
        raise _refusal(
            f"'{min(unknown)[:100]}' is no key of a policy",
            f"The keys are {', '.join(RetryPolicy.__annotations__)}.",
        )
    text = json.dumps({key: _READERS[key](key, value) for key, value in given.items()})
    if len(text) > MOST_BYTES:
        raise TooLarge(
            f"retry has {len(text)} bytes",
            f"A retry policy may have {MOST_BYTES} bytes as JSON text.",
            "Name fewer causes.",
        )
    return text


def _backoff(key: str, value: Any) -> Any:
    if isinstance(value, str) and value in BACKOFFS:
        return value
    if isinstance(value, list | tuple) and 1 <= len(value) <= MOST_DELAYS:
        return [_seconds(key, each, LONGEST_DELAY, may_be_nothing=True) for each in value]
    raise _refusal(
        f"backoff '{str(value)[:100]}' is not known",
        f"It is {', '.join(BACKOFFS)} or a list of 1 to {MOST_DELAYS} delays.",
    )


def _base(key: str, value: Any) -> float:
    return _seconds(key, value, LONGEST_BASE)


def _cap(key: str, value: Any) -> float:
    return _seconds(key, value, LONGEST_CAP)


def _retry_for(key: str, value: Any) -> float:
    return _seconds(key, value, LONGEST_DELAY)


def _jitter(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refusal(f"jitter is a {type(value).__name__}", "It is true or false.")
    return value


def _causes(key: str, value: Any) -> list[str]:
    causes = list(value) if isinstance(value, list | tuple | set | frozenset | Mapping) else []
    fine = all(isinstance(cause, str) and _CAUSE.fullmatch(cause) for cause in causes)
    if not fine or not 1 <= len(causes) <= MOST_CAUSES:
        raise _refusal(f"{key} '{str(value)[:100]}' is no list of causes", _CAUSE_RULE)
    return causes


def _snooze_on(key: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise _refusal(
            f"{key} is a {type(value).__name__}", "It is an object of causes and delays."
        )
    return {cause: _seconds(key, value[cause], LONGEST_DELAY) for cause in _causes(key, value)}


def _snoozes(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_SNOOZES:
        raise _refusal(
            f"snoozes {str(value)[:100]} is out of range",
            f"A run may be snoozed 0 to {MOST_SNOOZES} times.",
        )
    return value


_READERS: Final = {
    "backoff": _backoff,
    "base": _base,
    "cap": _cap,
    "jitter": _jitter,
    "retry_for": _retry_for,
    "retry_on": _causes,
    "discard_on": _causes,
    "snooze_on": _snooze_on,
    "snoozes": _snoozes,
}


def _seconds(key: str, value: Any, most: timedelta, *, may_be_nothing: bool = False) -> float:
    seconds = seconds_of(value.strip() if isinstance(value, str) else value)
    least = 0.0 if may_be_nothing else 1e-6
    if not least <= seconds <= most.total_seconds():
        nothing = "from nothing" if may_be_nothing else "more than nothing"
        raise _refusal(
            f"{key} '{str(value)[:100]}' is out of range or no duration",
            f"It is {nothing}, at most {most.days} days: seconds, or a text such as 90s or 1h30m.",
        )
    return seconds


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(f"'{text[:80]}' is not JSON", f"{error}.") from None


def _refusal(fact: str, rule: str) -> InvalidInput:
    return InvalidInput(f"retry: {fact}", rule, _HINT)
