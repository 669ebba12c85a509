"""A handler's circuit breaker, as a file or an application defines it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from pgcron_ha.config.values import HANDLER_NAME, QUEUE_NAME, Span, seconds_of
from pgcron_ha.errors import ConfigError
from pgcron_ha.spec.text import type_words

MOST_FAILURES: Final = 100
_LONGEST: Final = {"within": 86400.0, "open_for": 86400.0, "open_for_at_most": 7 * 86400.0}

_HINT: Final = (
    'Write for example failures = 5, within = "1m", open_for = "30s", '
    'fallback = { handler = "py:later" }.'
)


@dataclass(frozen=True)
class Breaker:
    """After `failures` `within` a time the cluster does not start the handler for `open_for`; then
    one run at a time probes it. A probe that fails doubles the time, up to `open_for_at_most`; one
    that succeeds closes the breaker.

    Durations are timedelta, seconds, or texts such as ``30s``. `fallback` decides what happens to
    the runs meanwhile: ``{"handler": "py:later"}`` executes them with another handler, ``{"queue":
    "spare"}`` moves them to nodes that go on; without it they wait. Raises `ConfigError`.
    """

    failures: int = 5
    within: Span = "1m"
    open_for: Span = "30s"
    open_for_at_most: Span = "10m"
    fallback: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.declaration()  # refused where it is written

    def declaration(self) -> dict[str, Any]:
        """The breaker as the database takes it: seconds and texts. Raises `ConfigError`."""
        if type(self.failures) is not int or not 1 <= self.failures <= MOST_FAILURES:
            rule = f"It is a whole number from 1 to {MOST_FAILURES}."
            raise _refusal(f"failures is {self.failures!r}", rule)
        seconds = {key: _seconds(key, getattr(self, key), most) for key, most in _LONGEST.items()}
        if seconds["open_for_at_most"] < seconds["open_for"]:
            raise _refusal("open_for_at_most is less than open_for", "Each probe doubles open_for.")
        return {"failures": self.failures, **seconds, **_fallback(self.fallback)}


def read_breaker(raw: object) -> Breaker | str:
    """A table's ``breaker``: its own, or the name of the handler whose breaker it shares.

    Raises `ConfigError`.
    """
    if isinstance(raw, Breaker):
        return raw
    if isinstance(raw, str):
        if not re.fullmatch(HANDLER_NAME, raw):
            raise _refusal(f"{raw[:100]!r} is no handler", "A text names whose breaker is shared.")
        return raw
    keys = [each.name for each in fields(Breaker)]
    if not isinstance(raw, Mapping):
        raise _refusal(f"it is {type_words(raw)}", f"It has the keys {', '.join(keys)}.")
    unknown = sorted(str(key) for key in raw if key not in keys)
    if unknown:
        raise _refusal(f"'{unknown[0][:100]}' is no key of it", f"It has {', '.join(keys)}.")
    return Breaker(**raw)


def declare(said: Mapping[str, Breaker | str]) -> list[dict[str, Any]]:
    """The declarations for the database, of the breakers by handler (full names).

    Raises `ConfigError` for a handler that shares a breaker which is not there, and for a fallback
    that has the same breaker.
    """
    declared = {
        name: {"name": name, **breaker.declaration(), "handlers": [name]}
        for name, breaker in sorted(said.items())
        if isinstance(breaker, Breaker)
    }
    for handler, shared in sorted(said.items()):
        if isinstance(shared, str) and shared not in declared:
            raise ConfigError(
                f"'{handler}' shares the breaker of '{shared}', which has none here",
                "A shared breaker is defined with the handler that it is named after.",
                f"Give '{shared}' a breaker of its own.",
            )
        if isinstance(shared, str):
            declared[shared]["handlers"].append(handler)
    for name, breaker in declared.items():
        if (fallback := breaker["fallback_handler"]) in breaker["handlers"]:
            raise ConfigError(
                f"the fallback of '{name}' is '{fallback}', which has the same breaker",
                "While a breaker is open none of its handlers is executed.",
                "Name another handler, or a queue, or leave it out: then the runs wait.",
            )
    return list(declared.values())


def _fallback(fallback: object) -> dict[str, str | None]:
    none: dict[str, str | None] = {"fallback_handler": None, "fallback_queue": None}
    if fallback is None:
        return none
    if isinstance(fallback, Mapping) and len(fallback) == 1:
        ((key, value),) = fallback.items()
        pattern = {"handler": HANDLER_NAME, "queue": QUEUE_NAME}.get(str(key))
        if pattern is not None and isinstance(value, str) and re.fullmatch(pattern, value):
            return none | {f"fallback_{key}": value}
    rule = 'It is { handler = "kind:name" } or { queue = "name" }.'
    raise _refusal(f"fallback is {str(fallback)[:100]}", rule)


def _seconds(key: str, value: object, most: float) -> float:
    seconds = seconds_of(value)
    if not 1.0 <= seconds <= most:
        rule = f"It is a duration of 1 second to {most / 86400:g} days, such as 30s."
        raise _refusal(f"{key} is {str(value)[:100]!r}", rule)
    return seconds


def _refusal(fact: str, rule: str) -> ConfigError:
    return ConfigError(f"breaker: {fact}", rule, _HINT)
