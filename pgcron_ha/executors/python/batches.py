"""Handlers that take several runs in one call: `App.handler(batch=100)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.attempt import Stopped
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import outcome_of_error, outcome_of_result
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Failed, Outcome

MOST_RUNS: Final = 1000
"""Of one batch: a node claims 500 at once, and 1000 ahead of its slots."""

NO_TRANSACTION: Final = Failed(
    "InvalidInput",
    "a handler that takes batches can't have transactional runs: each would need its own commit",
    retry=False,
)

_PUT_BACK: Final = Failed(
    "Interrupted",
    "the call was stopped because of another run of its batch",
    after=timedelta(0),
    snooze=True,
)


def read_batch(
    batch: int | None, isolation: str | None, on_lease_loss: str, delivery: str | None
) -> int | None:
    """From what `App.handler` was given; the other options may exclude it. Raises `ConfigError`."""
    if batch is None:
        return None
    if type(batch) is not int or not 2 <= batch <= MOST_RUNS:
        raise ConfigError(
            f"batch is {batch!r}",
            f"It is the number of runs that one call takes at most, from 2 to {MOST_RUNS}.",
            "Write for example batch=100.",
        )
    others = {"isolation": isolation, "on_lease_loss": on_lease_loss, "delivery": delivery}
    for name, value in others.items():
        if value in ("process", "finish", "transactional"):
            raise ConfigError(
                f"batch is given together with {name}={value!r}",
                "The runs of one call begin, stop and end together, in the node's process.",
                f"Leave one of them out: batch or {name}.",
            )
    return batch


def check_function(name: str, function: Callable[..., Any]) -> None:
    """Raises `ConfigError` for one that can't be called with a batch."""
    try:
        inspect.signature(function).bind([])
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the handler {name!r} can't be called with a batch of runs",
            f"A handler with batch gets one argument, the list of its runs' contexts: {error}.",
            f"Write def {name.removeprefix('py:')}(batch): …, and read each context's args there.",
        ) from None


def outcomes_of(context: Context, returned: Any) -> list[Outcome]:
    """The outcome of each run that the call had, in the order of its batch.

    A function with batch has returned None, or a list or tuple with the result, or the exception,
    of each run. Raises TypeError for anything else.
    """
    batch = context.batch
    if batch is None:
        return [SUCCEEDED if returned is None else outcome_of_result(returned)]
    if returned is None:
        return [SUCCEEDED] * len(batch)
    if not isinstance(returned, list | tuple) or len(returned) != len(batch):
        size = f" with {len(returned)} values" if isinstance(returned, list | tuple) else ""
        raise TypeError(
            f"a batch of {len(batch)} runs returned {type(returned).__name__}{size}: a handler"
            " with batch returns None, or a list with one result or exception for each run"
        )
    return [
        outcome_of_error(each, context)
        if isinstance(each, BaseException)
        else SUCCEEDED
        if each is None
        else outcome_of_result(each)
        for context, each in zip(batch, returned, strict=True)
    ]


def outcomes_of_error(context: Context, error: BaseException) -> list[Outcome]:
    """As `outcomes_of`, after the function has raised. Runs that nobody asked to stop come back at
    once, without having used an attempt, if the call ended because others were.
    """
    batch = context.batch or [context]
    was_stopped = isinstance(error, Stopped) and any(each.stop_reason for each in batch)
    return [
        _PUT_BACK if was_stopped and each.stop_reason is None else outcome_of_error(error, each)
        for each in batch
    ]
