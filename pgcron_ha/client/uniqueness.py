"""Of runs that ask for the same work, one: `Unique`, `Debounce` and `Throttle`, for ``unique=``.

Each names its work by a key; keys of different handlers are different. An idempotency key names one
request instead, and finds the run it had made even when that has ended. Durations are timedelta or
seconds. ``migrations/sql/unique.sql`` says what becomes of a run, and judges what comes
by SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

from pgcron_ha.errors import InvalidInput

SCOPES: Final = ("open", "waiting")
MANNERS: Final = ("return", "replace", "refuse")

_OF_A_KEY: Final = "It says what becomes of a second run with the same unique key."
_DEBOUNCED: Final = (
    "A debounced run is pushed on, with the newest args, for as long as it waits: that is "
    "all it can be."
)
_NEEDS: Final = (
    ("key_lifetime", "idempotency_key", "It says how long the key is remembered."),
    ("unique_scope", "unique_key", _OF_A_KEY),
    ("unique_for", "unique_key", _OF_A_KEY),
    ("on_conflict", "unique_key", _OF_A_KEY),
    ("debounce", "unique_key", _OF_A_KEY),
    ("debounce_max", "unique_key", _OF_A_KEY),
    ("debounce_max", "debounce", _DEBOUNCED),
)
_EXCLUDES: Final = (
    (
        "idempotency_key",
        "unique_key",
        "Each says which run a second call gets: an idempotency key the run it named, whatever "
        "became of it; a unique key the one that has it now.",
    ),
    (
        "unique_for",
        "unique_scope",
        "A unique key has a time, or it has the run for as long as that is open or waiting.",
    ),
    ("debounce", "unique_scope", _DEBOUNCED),
    ("debounce", "unique_for", _DEBOUNCED),
    ("debounce", "on_conflict", _DEBOUNCED),
    ("due_at", "debounce", "They say when the run is due."),
)


@dataclass(frozen=True, slots=True)
class Unique:
    """One run of the key at a time.

    While it is ``open`` (waits or executes), or only ``waiting`` (no node has taken it; the default
    with replace). A second call has the id of the first run returned, replaces its args, priority
    and due time while it waits, or raises Conflict (``refuse``). With a `period`, and no scope, one
    run in that time, though it has ended.
    """

    key: str
    scope: Literal["open", "waiting"] | None = None
    on_conflict: Literal["return", "replace", "refuse"] = "return"
    period: timedelta | float | str | None = None


@dataclass(frozen=True, slots=True)
class Debounce:
    """One run of the key, `delay` after the last call, with its args; `at_most` after the first."""

    key: str
    delay: timedelta | float | str
    at_most: timedelta | float | str | None = None


@dataclass(frozen=True, slots=True)
class Throttle:
    """One run of the key in each `period`, at once; other calls return its id, though it has ended.

    With `trailing` they are one more run at the end of the period, with the newest args.
    """

    key: str
    period: timedelta | float | str
    trailing: bool = False


Uniqueness: TypeAlias = Unique | Debounce | Throttle


def unique_arguments(unique: object) -> dict[str, Any]:
    """The arguments of `pgcron.enqueue` that say the same. Raises InvalidInput."""
    match unique:
        case Unique(key, scope, on_conflict, period):
            manner = {} if on_conflict == "return" else {"on_conflict": on_conflict}
            return {"unique_key": key, "unique_scope": scope, "unique_for": period, **manner}
        case Debounce(key, delay, at_most) if delay is not None:
            return {"unique_key": key, "debounce": delay, "debounce_max": at_most}
        case Throttle(key, period, trailing) if period is not None:
            manner = {"on_conflict": "replace"} if trailing else {}
            return {"unique_key": key, "unique_for": period, **manner}
    raise InvalidInput(
        f"unique is a {type(unique).__name__}, or has no duration",
        "It is a Unique, a Debounce or a Throttle of pgcron_ha.",
        "Write for example Unique('customer-7').",
    )


def check_keys(options: Mapping[str, Any]) -> None:
    """Raises InvalidInput for what says something of a key that is not given, and for what does not
    go together; `options` has no None.
    """
    for name, other, rule in _NEEDS:
        if name in options and other not in options:
            hint = f"Give {other}, or leave {name} out."
            raise InvalidInput(f"{name} is given without {other}", rule, hint)
    for name, other, rule in _EXCLUDES:
        if name in options and other in options:
            raise InvalidInput(f"{name} is given with {other}", rule, "Leave one of them out.")
    if {"due_at", "unique_for"} <= options.keys() and options.get("on_conflict") == "replace":
        raise InvalidInput(
            "due_at is given with a throttle",
            "They say when the run is due.",
            "Leave one of them out.",
        )
