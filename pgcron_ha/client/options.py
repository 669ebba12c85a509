"""The options of runs and the policies of schedules: one table of checks for every interface.

A check takes a value as a caller gave it and returns it as the functions of
`pgcron_ha.db.commands.functions` want it, or raises `InvalidInput` (`TooLarge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.client.retry_policy import RetryPolicy, retry_text
from pgcron_ha.client.uniqueness import MANNERS, SCOPES, Uniqueness
from pgcron_ha.config.values import Span, did_you_mean
from pgcron_ha.errors import InvalidInput, Mistakes
from pgcron_ha.model.plan import LONGEST_JITTER, CatchUp

Check: TypeAlias = Callable[[Any], Any]

DELIVERIES: Final = ("at_least_once", "at_most_once", "transactional")
OVERLAPS: Final = ("skip", "allow", "queue", "replace", "terminate")
QUEUE_DROPS: Final = ("newest", "oldest")
AFTER_PAUSE: Final = ("drop", "catchup")
INTERFACES: Final = ("cli", "code", "file", "sql", "ui")

_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_MONTH: Final = timedelta(days=30)
_YEAR: Final = timedelta(days=366)


class _RunsAndSchedules(TypedDict, total=False):
    queue: str
    priority: int
    max_attempts: int | None
    delivery: str
    retry: RetryPolicy | str | None
    concurrency_key: str | None
    requires: checks.Requirements | None
    weight: int | None
    give_up_after: Span | None
    silence_timeout: Span | None


class HandlerDefaults(_RunsAndSchedules, total=False):
    """What runs and schedules of a handler have, unless they say otherwise."""

    timeout: Span | None
    start_within: Span | None


class RunOptions(HandlerDefaults, total=False):
    """The options of a new run; what is left out has its handler's default, or the general one.

    A duration given as a number is in seconds. A living `idempotency_key` (a day, or
    `key_lifetime`) returns the run it already named. Of the runs of one `concurrency_key` (any
    text, such as ``customer-7``) no more execute at once than it has slots: one, or what
    ``pgcron.set_concurrency`` says. `unique` (Unique, Debounce, Throttle) decides what happens to a
    second run of the same work. Only nodes that have all labels that it `requires`
    (``{"gpu": "a100", "ssd": True}``) take it. It takes `weight` of its node's slots (1). A run
    that has not begun within `start_within` of its due time expires; `give_up_after` limits it in
    all, retries included; one that prints nothing, reports no progress and does not call `beat` for
    `silence_timeout` is stopped.
    """

    due_at: datetime | None
    idempotency_key: str | None
    key_lifetime: Span | None
    unique: Uniqueness | None


class Policies(_RunsAndSchedules, total=False):
    """The policies of a schedule in code; what is left out has the default."""

    args: Mapping[str, Any] | None
    timezone: str
    dst: str
    overlap: str
    catchup: str
    catchup_window: Span
    start_deadline: Span | None
    timeout: Span
    retry_base: Span
    retry_cap: Span
    max_running: int | None
    max_queued: int | None
    queue_drops: str | None
    after_pause: str
    jitter: Span | None
    max_runs: int | None
    pause_after_failures: int | None
    probe_after: Span | None
    depends_on_previous: bool
    owner: str | None
    description: str | None
    tags: Iterable[str] | None
    links: Mapping[str, str] | str | None


def _number(what: str, least: int, most: int, rule: str) -> Check:
    return partial(checks.whole_number, what, least=least, most=most, rule=rule)


def _choice_or_none(value: object) -> str:
    return "" if value == "" else checks.choice("queue_drops", value, QUEUE_DROPS)


_OF_BOTH: Final[Mapping[str, Check]] = {
    "queue": checks.queue_name,
    "priority": _number("priority", 0, 9, "A priority is a number from 0 (first) to 9 (last)."),
    "timeout": partial(checks.duration, "timeout", most=_MONTH),
    "max_attempts": _number("max_attempts", 1, 100, "A run is tried 1 to 100 times."),
    "delivery": partial(checks.choice, "delivery", known=DELIVERIES),
    "retry": retry_text,
    "requires": checks.requirement_words,
    "give_up_after": partial(checks.duration, "give_up_after", most=_YEAR),
    "silence_timeout": partial(checks.duration, "silence_timeout", most=_MONTH, least=_SECOND),
    "weight": _number("weight", 1, 1000, "A run takes 1 to 1000 slots of a node."),
}
OF_RUNS: Final[Mapping[str, Check]] = {
    **_OF_BOTH,
    "concurrency_key": checks.concurrency_key_name,
    "due_at": partial(checks.instant, "due_at"),
    "idempotency_key": partial(checks.text, "the idempotency key", most=checks.MOST_KEY_CHARACTERS),
    "key_lifetime": partial(checks.duration, "key_lifetime"),
    "start_within": partial(checks.duration, "start_within", most=_YEAR),
    "unique_key": partial(checks.text, "the unique key", most=checks.MOST_KEY_CHARACTERS),
    "unique_scope": partial(checks.choice, "unique_scope", known=SCOPES),
    "unique_for": partial(checks.duration, "unique_for", most=_YEAR),
    "on_conflict": partial(checks.choice, "on_conflict", known=MANNERS),
    "debounce": partial(checks.duration, "debounce", most=_MONTH),
    "debounce_max": partial(checks.duration, "debounce_max", most=_YEAR),
}
OF_SCHEDULES: Final[Mapping[str, Check]] = {
    **_OF_BOTH,
    "args": checks.args_text,
    "concurrency_key": lambda key: key and checks.concurrency_key_name(key),
    "requires": lambda labels: checks.requirement_words(labels) or (),
    "overlap": partial(checks.choice, "overlap policy", known=OVERLAPS),
    "catchup": lambda policy: CatchUp.parse(str(policy)).text,
    "catchup_window": partial(checks.duration, "catchup_window"),
    "start_deadline": partial(checks.duration, "start_deadline"),
    "retry_base": partial(checks.duration, "retry_base", most=_DAY),
    "retry_cap": partial(checks.duration, "retry_cap", most=_MONTH),
    "managed_by": partial(checks.choice, "managed_by", known=INTERFACES),
    "owner": lambda owner: owner and checks.text("the owner", owner, checks.MOST_NAME_CHARACTERS),
    "description": lambda said: (
        said and checks.lines("the description", said, checks.MOST_DESCRIPTION_CHARACTERS)
    ),
    "tags": checks.tag_words,
    "links": checks.links_text,
    "max_running": _number(
        "max_running", 0, 1000, "So many runs of a schedule may execute at once: 1 to 1000."
    ),
    "max_queued": _number(
        "max_queued", 0, 1000, "So many runs may wait with overlap queue: 1 to 1000."
    ),
    "queue_drops": _choice_or_none,
    "depends_on_previous": partial(checks.true_or_false, "depends_on_previous"),
    "after_pause": partial(checks.choice, "after_pause", known=AFTER_PAUSE),
    "pause_after_failures": _number(
        "pause_after_failures",
        0,
        1000,
        "A schedule pauses itself after 1 to 1000 failures in a row; 0: never.",
    ),
    "probe_after": partial(
        checks.duration, "probe_after", most=_DAY, least=_SECOND, may_be_zero=True
    ),
    "jitter": partial(checks.duration, "jitter", most=LONGEST_JITTER, may_be_zero=True),
    "max_runs": _number("max_runs", 0, 1_000_000_000, "It is 1 to 1000000000."),
}


def check_each(values: Mapping[str, Any], table: Mapping[str, Check]) -> dict[str, Any]:
    """The values, each as its check returns it; None and what has no check stay as they are.

    Raises an error that names everything that is wrong.
    """
    mistakes, checked = Mistakes(), dict(values)
    for name, value in values.items():
        if value is not None and name in table:
            checked[name] = mistakes.tried(table[name], value)
    mistakes.raise_any()
    return checked


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def check_handler_defaults(handler_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are given, checked; raises InvalidInput for a name that is none of them, too."""
    known = list(HandlerDefaults.__annotations__)
    unknown = handler_defaults.keys() - set(known)
    if unknown:
        raise InvalidInput(
            f"a handler has no default '{min(unknown)}'{did_you_mean(min(unknown), known)}",
            f"The defaults of its runs and schedules are {', '.join(sorted(known))}.",
            "Correct its spelling, or give it where the run is enqueued.",
        )
    checked = given(check_each(handler_defaults, OF_RUNS))
    check_attempts(checked)
    return checked


def with_defaults(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and of the handler's defaults those that they leave out."""
    merged = {**defaults, **options}
    if options.get("delivery") == "at_most_once" and "max_attempts" not in options:
        merged.pop("max_attempts", None)  # a default gives way to what was asked for
    return merged


def check_attempts(options: Mapping[str, Any]) -> None:
    """Raises InvalidInput for more than one attempt of a run that may be executed only once."""
    most = options.get("max_attempts")
    if options.get("delivery") == "at_most_once" and most not in (None, 1):
        raise InvalidInput(
            f"max_attempts {most} with at_most_once",
            "A run that may be executed at most once can't be tried again.",
            "Leave max_attempts out, or use at_least_once.",
        )
