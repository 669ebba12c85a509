"""The options of runs and the policies of schedules: one table for every interface.

A new one has a row here, its type in one of the typed dictionaries, an option of the command line,
an argument of the SQL function, a column (of runs: in `pgcron.history`, too) that is filled where
such rows are written (`run_of_request`, `run_of_schedule`, `history_of`), and a place where it
acts. Forms, files and their published form, and what runs again, take it from there. A check takes
a value as a caller gave it and returns it as the functions of `pgcron_ha.db.commands.functions`
want it, or raises `InvalidInput` (`TooLarge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.client.retry_policy import RetryPolicy, retry_text
from pgcron_ha.client.uniqueness import MANNERS, SCOPES, Uniqueness
from pgcron_ha.config.values import Span
from pgcron_ha.errors import InvalidInput, Mistakes
from pgcron_ha.model.plan import LONGEST_JITTER, catchup_policy
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.zones import load_zone

Check: TypeAlias = Callable[[Any], Any]

_DELIVERIES: Final = ("at_least_once", "at_most_once", "transactional")
_OVERLAPS: Final = ("skip", "allow", "queue", "replace", "terminate")
_SECOND: Final = timedelta(seconds=1)
_HOUR: Final = timedelta(hours=1)
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
    tags: Iterable[str] | None


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
    `silence_timeout` is stopped. Its `tags` are words to find it by.
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
    links: Mapping[str, str] | str | None


@dataclass(frozen=True, kw_only=True)
class Option:
    """A row of the table: what is known of an option."""

    kind: type = field(kw_only=False)
    """Of its values, as the database takes them."""
    default: Any = field(default=None, kw_only=False)
    """A schedule's; None: none."""
    check: Check | None = None
    """For what is not judged by what follows."""
    title: str = ""
    """What messages call it, if not by its name."""
    words: tuple[str, ...] = ()
    """Those that it may be."""
    least: Any = 0
    most: Any = None
    """The bounds of a number or a duration, or how many characters a text has."""
    rule: str = ""
    """The sentence about the bounds of a number, if it says more than they do."""
    is_removable: bool = False
    """Whether the empty value of its kind takes back what a schedule had."""

    def checked(self, name: str, value: Any) -> Any:
        """The value, as the database takes it. Raises InvalidInput, TooLarge."""
        what = self.title or name
        if self.is_removable and value == "" and self.kind is str:
            return value
        if self.check is not None:
            return self.check(value)
        if self.words:
            return checks.choice(what, value, self.words)
        if self.kind is int:
            return checks.whole_number(what, value, self.least, self.most, self.rule)
        if self.kind is bool:
            return checks.true_or_false(what, value)
        if self.kind is datetime:
            return checks.instant(what, value)
        if self.kind is timedelta:
            least, most = self.least or timedelta.resolution, self.most or checks.LONGEST_DURATION
            return checks.duration(what, value, most, least, may_be_zero=self.is_removable)
        return checks.text(what, value, self.most)


def _zone_name(name: object) -> str:
    return load_zone(checks.any_text("timezone", name)).key


def _dst_policy(name: object) -> str:
    return str(DstPolicy.parse(checks.any_text("dst", name)))


def _limit(most: int) -> Option:
    """A number that 0 takes back."""
    rule = f"It is a number from 1 to {most}; 0 takes it back."
    return Option(int, most=most, rule=rule, is_removable=True)


POLICIES: Final[Mapping[str, Option]] = {
    "args": Option(str, "{}", check=checks.args_text),
    "timezone": Option(str, "UTC", check=_zone_name),
    "dst": Option(str, "vixie", words=tuple(DstPolicy), check=_dst_policy),
    "queue": Option(str, "default", check=checks.queue_name),
    "priority": Option(int, 5, most=9, rule="A priority is a number from 0 (first) to 9 (last)."),
    "overlap": Option(str, "skip", title="overlap policy", words=_OVERLAPS),
    "catchup": Option(str, "latest", check=lambda policy: catchup_policy(str(policy))),
    "catchup_window": Option(timedelta, _HOUR),
    "start_deadline": Option(timedelta),
    "timeout": Option(timedelta, _HOUR, most=_MONTH),
    "max_attempts": Option(int, least=1, most=100),
    "retry": Option(str, "{}", check=retry_text),
    "delivery": Option(str, "at_least_once", words=_DELIVERIES),
    "concurrency_key": Option(str, check=checks.concurrency_key_name, is_removable=True),
    "requires": Option(tuple, (), check=lambda labels: checks.requirement_words(labels) or ()),
    "give_up_after": Option(timedelta, most=_YEAR),
    "silence_timeout": Option(timedelta, least=_SECOND, most=_MONTH),
    "weight": Option(int, 1, least=1, most=1000, rule="A run takes 1 to 1000 slots of a node."),
    "max_running": _limit(1000),
    "max_queued": _limit(1000),
    "queue_drops": Option(str, words=("newest", "oldest"), is_removable=True),
    "after_pause": Option(str, "drop", words=("drop", "catchup")),
    "jitter": Option(timedelta, most=LONGEST_JITTER, is_removable=True),
    "max_runs": _limit(10**9),
    "pause_after_failures": _limit(1000),
    "probe_after": Option(timedelta, least=_SECOND, most=_DAY, is_removable=True),
    "depends_on_previous": Option(bool, False),
    "owner": Option(str, title="the owner", most=checks.MOST_NAME_CHARACTERS, is_removable=True),
    "description": Option(str, check=checks.description_text, is_removable=True),
    "tags": Option(tuple, (), check=checks.tag_words),
    "links": Option(str, "{}", check=checks.links_text),
    "enabled": Option(bool),
    "managed_by": Option(str, words=("cli", "code", "file", "sql", "ui")),
}
"""The policies of a schedule. `put_schedule` leaves those unchanged that are None or left out."""

OF_RUNS: Final[Mapping[str, Option]] = {
    **{name: POLICIES[name] for name in HandlerDefaults.__annotations__ if name in POLICIES},
    "concurrency_key": Option(str, check=checks.concurrency_key_name),
    "requires": Option(tuple, check=checks.requirement_words),
    "due_at": Option(datetime),
    "idempotency_key": Option(str, title="the idempotency key", most=checks.MOST_KEY_CHARACTERS),
    "key_lifetime": Option(timedelta, most=_YEAR),
    "start_within": Option(timedelta, most=_YEAR),
    "unique_key": Option(str, title="the unique key", most=checks.MOST_KEY_CHARACTERS),
    "unique_scope": Option(str, words=SCOPES),
    "unique_for": Option(timedelta, most=_YEAR),
    "on_conflict": Option(str, words=MANNERS),
    "debounce": Option(timedelta, most=_MONTH),
    "debounce_max": Option(timedelta, most=_YEAR),
}


OF_HANDLERS: Final[Mapping[str, Option]] = {
    name: option for name, option in OF_RUNS.items() if name in HandlerDefaults.__optional_keys__
}
"""The options of the run of a step."""


def check_each(
    values: Mapping[str, Any], table: Mapping[str, Option], mistakes: Mistakes | None = None
) -> dict[str, Any]:
    """The values, each as its check returns it; None and what has no check stay as they are.

    Raises an error that names everything that is wrong; if they are kept in `mistakes`, what is
    wrong is None.
    """
    found, checked = mistakes or Mistakes(), dict(values)
    for name, value in values.items():
        if value is not None and name in table:
            checked[name] = found.tried(table[name].checked, name, value)
    if mistakes is None:
        found.raise_any()
    return checked


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def check_handler_defaults(handler_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are given, checked; raises InvalidInput for a name that is none of them, too."""
    known = sorted(HandlerDefaults.__annotations__)
    which = "The defaults of its runs and schedules"
    hint = "Correct its spelling, or give it where the run is enqueued."
    checks.refuse_others(handler_defaults, known, "a handler has no default", which, hint)
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
