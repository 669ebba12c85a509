"""Many requests for runs: each judged as `App.enqueue` judges one, sent in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Required, TypeAlias, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.client.options import RunOptions
from pgcron_ha.client.run_request import RunRequest, request_run
from pgcron_ha.db.commands import functions
from pgcron_ha.errors import InvalidInput, PgcronError, TooLarge

# What `pgcron.enqueue_many` takes at once: one statement stays short enough to be repeated.
MOST_RUNS: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = 'Write for example {"handler": "py:report", "args": {"day": 1}}.'
_DIVIDE: Final = "Ask several times; in one transaction they exist together or not at all."


class _What(TypedDict, total=False):
    handler: Required[str | Callable[..., Any]]
    args: Mapping[str, Any] | None


class NewRun(_What, RunOptions, total=False):
    """One of the runs that `App.enqueue_many` asks for: what `App.enqueue` takes, by its names."""


Request: TypeAlias = Callable[[Any, Any, Mapping[str, Any]], RunRequest]
"""Makes a checked request of a handler, args and options, as `request_run` does."""


def request_runs(
    runs: Iterable[Mapping[str, Any]],
    request: Request = request_run,
    check_args: Callable[[str, str], None] | None = None,
) -> Iterator[str]:
    """The checked requests in order, as JSON; `check_args` judges the args (JSON text) of a handler
    where a request is like one before but for them.

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
            made = request_new_run(options, which, request)
            args, members = made.args, made.all_but_args()
            if rest:
                judged[rest] = made.handler, members
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


def request_new_run(options: object, which: str, request: Request = request_run) -> RunRequest:
    """The checked request; messages begin with `which`."""
    if not isinstance(options, Mapping):
        raise InvalidInput(f"{which} is a {type(options).__name__}", "A run is a mapping.", _HINT)
    rest = {key: value for key, value in options.items() if key not in ("handler", "args")}
    try:
        return request(options.get("handler") or "", options.get("args"), rest)
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
    if not requests:
        return []
    if (size := sum(map(len, requests))) > MOST_BYTES:
        raise TooLarge(
            f"{len(requests)} runs have {size} characters",
            f"One call takes up to {MOST_BYTES} bytes (64 MiB) as JSON.",
            _DIVIDE,
        )
    return await functions.enqueue_many(
        connection, f"[{','.join(requests)}]", actor=actor, schema=schema
    )
