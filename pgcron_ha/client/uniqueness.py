"""One run for the same work: `Unique`, `Debounce` and `Throttle`, for ``unique=``.

Each names its work by a key; keys of different handlers are different. An idempotency key names one
request instead, and finds the run it had made even when that has ended. Durations are timedelta or
seconds. ``migrations/sql/unique.sql`` decides, and checks which options go together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pgcron_ha.config.values import Span
from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.text import type_words

SCOPES: Final = ("open", "waiting")
MANNERS: Final = ("return", "replace", "refuse")


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
    period: Span | None = None


@dataclass(frozen=True, slots=True)
class Debounce:
    """One run of the key, `delay` after the last call, with its args; `at_most` after the first."""

    key: str
    delay: Span
    at_most: Span | None = None


@dataclass(frozen=True, slots=True)
class Throttle:
    """One run of the key in each `period`, at once; other calls return its id, though it has ended.

    With `trailing` they are one more run at the end of the period, with the newest args.
    """

    key: str
    period: Span
    trailing: bool = False


Uniqueness: TypeAlias = Unique | Debounce | Throttle


def unique_arguments(unique: object) -> dict[str, Any]:
    """The same as arguments of `pgcron.enqueue`. Raises InvalidInput."""
    match unique:
        case Unique(key, scope, on_conflict, period) if key is not None:
            manner = {} if on_conflict == "return" else {"on_conflict": on_conflict}
            return {"unique_key": key, "unique_scope": scope, "unique_for": period, **manner}
        case Debounce(key, delay, at_most) if None not in (key, delay):
            return {"unique_key": key, "debounce": delay, "debounce_max": at_most}
        case Throttle(key, period, trailing) if None not in (key, period):
            manner = {"on_conflict": "replace"} if trailing else {}
            return {"unique_key": key, "unique_for": period, **manner}
    raise InvalidInput(
        f"unique is {type_words(unique)} that can't be used",
        "It is a Unique, a Debounce or a Throttle of pgcron_ha, with a key; a Debounce also has "
        "a delay, a Throttle a period.",
        "Write for example Unique('customer-7').",
    )
