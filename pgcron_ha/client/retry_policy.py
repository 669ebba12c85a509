"""Retry policies as callers write them, checked before anything is sent.

A policy is a mapping (or its JSON text) whose keys are `RetryPolicy`'s; what it leaves out has the
default. ``migrations/sql/retry_policy.sql`` describes each key and checks what comes by
SQL. Here durations are timedelta, seconds, or texts such as ``90s``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.config.values import Span
from pgcron_ha.errors import InvalidInput, TooLarge
from pgcron_ha.executors.contract.outcome import LONGEST_DELAY

MOST_BYTES: Final = 8192
MOST_CAUSES: Final = 50
MOST_DELAYS: Final = 100
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

    ``backoff``: exponential, linear, fixed, or a list of delays; ``base``: the longest wait before
    the first retry (2 s); ``cap``: before any (1 h); ``jitter``; ``retry_for``: no retry begins
    later than this after the first attempt; ``retry_on``, ``discard_on``: causes; ``snooze_on``:
    causes and their delays; ``snoozes``: how often at most.
    """

    backoff: str | Sequence[Span]
    base: Span
    cap: Span
    jitter: bool
    retry_for: Span
    retry_on: Sequence[str]
    discard_on: Sequence[str]
    snooze_on: Mapping[str, Span]
    snoozes: int


def retry_text(policy: object) -> str:
    """The policy as the JSON text that SQL takes. Raises InvalidInput and TooLarge."""
    read = checks.parsed_json("retry: ", policy, _HINT) if isinstance(policy, str) else policy
    given = checks.mapping("retry: it", read, "A retry policy is an object of keys.", _HINT)
    keys = RetryPolicy.__annotations__
    checks.refuse_others(given, keys, "retry: a policy has no key", "Its keys")
    text = json.dumps({key: _READERS[key](f"retry: {key}", value) for key, value in given.items()})
    if len(text) > MOST_BYTES:
        raise TooLarge(
            f"retry has {len(text)} bytes",
            f"A retry policy may have {MOST_BYTES} bytes as JSON text.",
            "Name fewer causes.",
        )
    return text


def _seconds(
    what: str, value: object, most: timedelta = LONGEST_DELAY, *, may_be_zero: bool = False
) -> float:
    return checks.duration(what, value, most, may_be_zero=may_be_zero).total_seconds()


def _backoff(what: str, value: Any) -> Any:
    if isinstance(value, str) and value in BACKOFFS:
        return value
    if isinstance(value, list | tuple) and 1 <= len(value) <= MOST_DELAYS:
        return [_seconds(what, each, may_be_zero=True) for each in value]
    raise InvalidInput(
        f"{what} '{str(value)[:100]}' is not known",
        f"It is {', '.join(BACKOFFS)} or a list of 1 to {MOST_DELAYS} delays.",
        _HINT,
    )


def _causes(what: str, value: Any) -> list[str]:
    causes = list(value) if isinstance(value, list | tuple | set | frozenset | Mapping) else []
    fine = all(isinstance(cause, str) and _CAUSE.fullmatch(cause) for cause in causes)
    if not fine or not 1 <= len(causes) <= MOST_CAUSES:
        raise InvalidInput(f"{what} '{str(value)[:100]}' is no list of causes", _CAUSE_RULE, _HINT)
    return causes


def _snooze_on(what: str, value: Any) -> dict[str, float]:
    delays = checks.mapping(what, value, "It is an object of causes and delays.", _HINT)
    return {cause: _seconds(what, delays[cause]) for cause in _causes(what, delays)}


_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "backoff": _backoff,
    "base": partial(_seconds, most=timedelta(days=1)),
    "cap": partial(_seconds, most=timedelta(days=30)),
    "jitter": checks.true_or_false,
    "retry_for": _seconds,
    "retry_on": _causes,
    "discard_on": _causes,
    "snooze_on": _snooze_on,
    "snoozes": partial(checks.whole_number, least=0, most=1000),
}
