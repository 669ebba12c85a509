"""Many wishes for runs: each judged as `App.enqueue` judges one, sent in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Required, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.client.requirements import Requirements
from pgcron_ha.client.retry_policy import RetryPolicy
from pgcron_ha.client.run_request import RunRequest, request_run
from pgcron_ha.client.uniqueness import Uniqueness
from pgcron_ha.db.commands import functions
from pgcron_ha.errors import InvalidInput, PgcronError, TooLarge

# What `pgcron.enqueue_many` takes at once: one statement stays short enough to be repeated.
MOST_RUNS: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = 'Write for example {"handler": "py:report", "args": {"day": 1}}.'
_DIVIDE: Final = "Ask several times; in one transaction they exist together or not at all."


class RunOptions(TypedDict, total=False):
    """What may be said of a run that is asked for; what it leaves out has the default."""

    queue: str
    priority: int
    due_at: datetime | None
    idempotency_key: str | None
    key_lifetime: timedelta | float | str | None
    timeout: timedelta | float | str | None
    max_attempts: int | None
    delivery: str
    retry: RetryPolicy | str | None
    lane: str | None
    requires: Requirements | None
    start_within: timedelta | float | str | None
    give_up_after: timedelta | float | str | None
    silence_timeout: timedelta | float | str | None
    unique: Uniqueness | None
    weight: int | None


class _What(TypedDict, total=False):
    handler: Required[str | Callable[..., Any]]
    args: Mapping[str, Any] | None


class NewRun(_What, RunOptions, total=False):
    """One of the runs that `App.enqueue_many` asks for: what `App.enqueue` takes, by its names."""


_KEYS: Final = NewRun.__annotations__.keys()
_NOTHING: Final[Mapping[str, tuple[str, ...] | None]] = MappingProxyType({})


def request_runs(
    runs: Iterable[Mapping[str, Any]],
    name_of: Callable[[Any], str],
    check_args: Callable[[str, str], None] | None = None,
    requires_of: Mapping[str, tuple[str, ...] | None] = _NOTHING,
) -> Iterator[str]:
    """The checked requests in order, as JSON; `name_of` gives a handler's full name, `check_args`
    judges the args (JSON text) of a handler, `requires_of` has what handlers require by default.

    Raises as `request_run`, TooLarge for more than `MOST_RUNS`; the message says which one it is.
    """
    requested = list(islice(runs, MOST_RUNS + 1))
    if len(requested) > MOST_RUNS:
        raise TooLarge(
            f"more than {MOST_RUNS} runs are asked for",
            f"One call takes up to {MOST_RUNS} runs.",
            _DIVIDE,
        )
    judged: dict[object, tuple[str, str]] = {}
    for place, options in enumerate(requested, 1):
        which = f"run {place} of {len(requested)}"
        # Most differ in nothing but their args, and the rest is the dearer part.
        rest = _all_but_args(options)
        known = judged.get(rest) if rest else None
        if known is None:
            request = request_new_run(options, name_of, which, check_args, requires_of)
            args, members = request.args, request.all_but_args()
            if rest:
                judged[rest] = request.handler, members
        else:
            handler, members = known
            args = _judged_args(handler, options["args"], which, check_args)
        yield f'{{{members},"args":{args}}}'


def _all_but_args(options: object) -> tuple[object, ...]:
    """What makes two requests the same but for their args; empty when it can't be compared.

    Types are part of it: True is no priority although it equals 1.
    """
    if type(options) is not dict or "args" not in options:
        return ()
    rest = tuple([(key, value, type(value)) for key, value in options.items() if key != "args"])
    try:
        hash(rest)
    except TypeError:
        return ()
    return rest


def _judged_args(
    handler: str, args: Any, which: str, check_args: Callable[[str, str], None] | None
) -> str:
    try:
        text = checks.args_text(args)
        if check_args is not None:
            check_args(handler, text)
    except PgcronError as error:
        raise _named(which, error) from None
    return text


def request_new_run(
    options: object,
    name_of: Callable[[Any], str],
    which: str,
    check_args: Callable[[str, str], None] | None = None,
    requires_of: Mapping[str, tuple[str, ...] | None] = _NOTHING,
) -> RunRequest:
    """The checked request; messages begin with `which`. None stands for what is left out."""
    if not isinstance(options, Mapping):
        raise InvalidInput(f"{which} is a {type(options).__name__}", "A run is a mapping.", _HINT)
    if not options.keys() <= _KEYS:
        raise InvalidInput(
            f"{which}: '{min(map(str, options.keys() - _KEYS))[:100]}' is no argument of enqueue",
            f"The keys are {', '.join(NewRun.__annotations__)}.",
            _HINT,
        )
    given = {key: value for key, value in options.items() if value is not None}
    try:
        request = request_run(name_of(given.pop("handler", "")), **given)
        if "requires" not in given:
            request = request._replace(requires=requires_of.get(request.handler))
        if check_args is not None:
            check_args(request.handler, request.args)
        return request
    except PgcronError as error:
        raise _named(which, error) from None


def _named(which: str, error: PgcronError) -> PgcronError:
    """The same error, saying of which run it is."""
    return type(error)(f"{which}: {error.message}", error.detail, error.hint)


async def send_runs(
    connection: Any, requests: Sequence[str], schema: str, actor: str | None = None
) -> list[int]:
    """The ids of requests as JSON, in their order; in the transaction of `connection`.

    Raises TooLarge.
    """
    objects: list[str] = []
    size = 0
    for request in requests:
        objects.append(request)
        size += len(request)
        if size > MOST_BYTES:
            raise TooLarge(
                f"{len(objects)} of {len(requests)} runs have more than {MOST_BYTES} characters",
                f"One call takes up to {MOST_BYTES} bytes (64 MiB) as JSON.",
                _DIVIDE,
            )
    if not objects:
        return []
    return await functions.enqueue_many(
        connection, f"[{','.join(objects)}]", actor=actor, schema=schema
    )
