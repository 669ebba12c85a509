"""Many wishes for runs: each judged as `App.enqueue` judges one, sent in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Required, TypedDict

from pgcron_ha.client.retry_policy import RetryPolicy
from pgcron_ha.client.run_request import RunRequest, request_run
from pgcron_ha.db import doors
from pgcron_ha.errors import InvalidInput, PgcronError, TooLarge

# What `pgcron.enqueue_many` takes at once: one statement stays short enough to be repeated.
MOST_RUNS: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = 'Write for example {"handler": "py:report", "args": {"day": 1}}.'
_DIVIDE: Final = "Ask several times; in one transaction they exist together or not at all."


class NewRun(TypedDict, total=False):
    """One of the runs that `App.enqueue_many` asks for: what `App.enqueue` takes, by its names."""

    handler: Required[str | Callable[..., Any]]
    args: Mapping[str, Any] | None
    queue: str
    priority: int
    due_at: datetime | None
    idempotency_key: str | None
    key_lifetime: timedelta | float | None
    timeout: timedelta | float | None
    max_attempts: int | None
    delivery: str
    retry: RetryPolicy | str | None


_KEYS: Final = NewRun.__annotations__.keys()


def request_runs(
    runs: Iterable[Mapping[str, Any]],
    name_of: Callable[[Any], str],
    check_args: Callable[[str, str], None] | None = None,
) -> list[RunRequest]:
    """The checked requests in order; `name_of` gives a handler's full name, `check_args` judges
    the args (JSON text) of a handler.

    Raises as `request_run`, TooLarge for more than `MOST_RUNS`; the message says which one it is.
    """
    wishes = list(islice(runs, MOST_RUNS + 1))
    if len(wishes) > MOST_RUNS:
        raise TooLarge(
            f"more than {MOST_RUNS} runs are asked for",
            f"One call takes up to {MOST_RUNS} runs.",
            _DIVIDE,
        )
    return [
        request_new_run(wish, name_of, f"run {place} of {len(wishes)}", check_args)
        for place, wish in enumerate(wishes, 1)
    ]


def request_new_run(
    wish: object,
    name_of: Callable[[Any], str],
    which: str,
    check_args: Callable[[str, str], None] | None = None,
) -> RunRequest:
    """The checked request; messages begin with `which`. None stands for what is left out."""
    if not isinstance(wish, Mapping):
        raise InvalidInput(f"{which} is a {type(wish).__name__}", "A run is a mapping.", _HINT)
    if not wish.keys() <= _KEYS:
        raise InvalidInput(
            f"{which}: '{min(map(str, wish.keys() - _KEYS))[:100]}' is no argument of enqueue",
            f"The keys are {', '.join(NewRun.__annotations__)}.",
            _HINT,
        )
    given = {key: value for key, value in wish.items() if value is not None}
    try:
        request = request_run(name_of(given.pop("handler", "")), **given)
        if check_args is not None:
            check_args(request.handler, request.args)
        return request
    except PgcronError as error:
        raise type(error)(f"{which}: {error.message}", error.detail, error.hint) from None


async def send_runs(
    connection: Any, requests: Sequence[RunRequest], schema: str, actor: str | None = None
) -> list[int]:
    """The ids in the same order; in the transaction of `connection`. Raises TooLarge."""
    objects = []
    size = 0
    for request in requests:
        objects.append(request.as_json())
        size += len(objects[-1])
        if size > MOST_BYTES:
            raise TooLarge(
                f"{len(objects)} of {len(requests)} runs have more than {MOST_BYTES} characters",
                f"One call takes up to {MOST_BYTES} bytes (64 MiB) as JSON.",
                _DIVIDE,
            )
    if not objects:
        return []
    return await doors.enqueue_many(
        connection, f"[{','.join(objects)}]", actor=actor, schema=schema
    )
