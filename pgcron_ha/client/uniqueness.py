"""Of runs that ask for the same work, one: `Unique`, `Debounce` and `Throttle`, for ``unique=``.

Each names its work by a key; keys of different handlers are different. An idempotency key names one
request instead, and finds the run it had made even when that has ended. Durations are timedelta or
seconds. ``migrations/sql/unique.sql`` says what becomes of a run, and judges what comes
by SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pgcron_ha.client import checks
from pgcron_ha.errors import InvalidInput

SCOPES: Final = ("open", "waiting")
MANNERS: Final = ("return", "replace", "refuse")
# In the order of `unique_of`.
UNIQUE_ARGUMENTS: Final = (
    *("unique_key", "unique_scope", "unique_for"),
    *("on_conflict", "debounce", "debounce_max"),
)
LONGEST_PERIOD: Final = timedelta(days=366)
LONGEST_DEBOUNCE: Final = timedelta(days=30)


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


def unique_of(
    key: str | None,
    scope: Any,
    period: timedelta | float | str | None,
    on_conflict: Any,
    debounce: timedelta | float | str | None,
    debounce_max: timedelta | float | str | None,
) -> Unique | Debounce | None:
    """What the arguments of `pgcron.enqueue` say; raises InvalidInput for what has no key."""
    others = {
        "unique_scope": scope,
        "unique_for": period,
        "on_conflict": on_conflict,
        "debounce": debounce,
        "debounce_max": debounce_max,
    }
    given = [name for name, value in others.items() if value is not None]
    if key is None and given:
        raise InvalidInput(
            f"{given[0]} is given without unique_key",
            "It says what becomes of a second run with the same unique key.",
            "Give the key, for example 'customer-7'.",
        )
    if key is None:
        return None
    if debounce is not None and set(given) <= {"debounce", "debounce_max"}:
        return Debounce(key, debounce, debounce_max)
    if debounce is not None or debounce_max is not None:
        raise InvalidInput(
            f"debounce is given with {given[0]}"
            if debounce is not None
            else "debounce_max is given without debounce",
            "A debounced run is pushed on, with the newest args, for as long as it waits: that is "
            "all it can be.",
            "Leave one of them out.",
        )
    return Unique(key, scope, on_conflict or "return", period)


def unique_members(
    unique: Uniqueness | None, idempotency_key: str | None, due_at: datetime | None
) -> str | None:
    """The members of the JSON object that `pgcron.enqueue_many` takes; None stays None.

    Raises InvalidInput.
    """
    if unique is None:
        return None
    if not isinstance(unique, Unique | Debounce | Throttle):
        raise InvalidInput(
            f"unique is a {type(unique).__name__}",
            "It is a Unique, a Debounce or a Throttle of pgcron_ha.",
            "Write for example Unique('customer-7').",
        )
    if idempotency_key is not None:
        raise InvalidInput(
            "idempotency_key is given with unique_key",
            "Each says which run a second call gets: an idempotency key the run it named, whatever "
            "became of it; a unique key the one that has it now.",
            "Leave one of them out.",
        )
    if isinstance(unique, Unique) and unique.period is not None and unique.scope is not None:
        raise InvalidInput(
            "unique_for is given with unique_scope",
            "A unique key has a time, or it has the run for as long as that is open or waiting.",
            "Leave one of them out.",
        )
    if isinstance(unique, Throttle):
        manner: Literal["return", "replace"] = "replace" if unique.trailing else "return"
        unique = Unique(unique.key, on_conflict=manner, period=unique.period)
    decides = isinstance(unique, Debounce) or (
        unique.period is not None and unique.on_conflict == "replace"
    )
    if decides and due_at is not None:
        raise InvalidInput(
            f"due_at is given with {'debounce' if isinstance(unique, Debounce) else 'a throttle'}",
            "They say when the run is due.",
            "Leave one of them out.",
        )
    key = checks.text("the unique key", unique.key, checks.MOST_KEY_CHARACTERS)
    return ",".join((f'"unique_key":{json.dumps(key)}', *_members(unique)))


def _members(unique: Unique | Debounce) -> Iterator[str]:
    if isinstance(unique, Unique):
        if unique.period is not None:
            yield f'"unique_for":"{_seconds("period", unique.period, LONGEST_PERIOD)}"'
        if unique.scope is not None:
            yield f'"unique_scope":"{checks.choice("scope", unique.scope, SCOPES)}"'
        yield f'"on_conflict":"{checks.choice("on_conflict", unique.on_conflict, MANNERS)}"'
    else:
        delay = _seconds("delay", unique.delay, LONGEST_DEBOUNCE)
        yield f'"debounce":"{delay}"'
        if unique.at_most is not None:
            yield f'"debounce_max":"{_seconds("at_most", unique.at_most, LONGEST_PERIOD)}"'


def _seconds(what: str, value: object, most: timedelta) -> str:
    duration = checks.duration(what, value, most)
    if duration is None:
        raise InvalidInput(f"{what} is missing", "It is a duration.", "Write for example '10m'.")
    return f"{duration.total_seconds():f} s"
