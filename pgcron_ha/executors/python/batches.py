"""Handlers that take several runs in one call: `App.handler(batch=100)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import is_stop, outcome_of_error, outcome_of_result
from pgcron_ha.executors.contract.masking import Masker
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Failed, Interrupted, Outcome

MOST_RUNS: Final = 1000
"""Of one batch: a node claims 500 at once, and 1000 ahead of its slots."""

AT_LEAST_ONCE: Final = "at_least_once"

UNFIT: Final = Failed(
    "InvalidInput",
    "a handler that takes batches has only runs with delivery at_least_once: a call that is stopped"
    " for one of its runs begins anew for the others",
    retry=False,
)

# As for a stop of the node: the attempt is given back.
_GIVEN_BACK: Final = Interrupted(StopReason.SHUTDOWN, "its call was stopped for another run")


def check_batch(batch: int, others: Mapping[str, object]) -> None:
    """`others` are the other options of its handler, some of which exclude it.

    Raises `ConfigError`.
    """
    if type(batch) is not int or not 2 <= batch <= MOST_RUNS:
        raise ConfigError(
            f"batch is {batch!r}",
            f"It is the number of runs that one call takes at most, from 2 to {MOST_RUNS}.",
            "Write for example batch=100.",
        )
    alone = {"isolation": None, "on_lease_loss": "stop", "delivery": AT_LEAST_ONCE, "weight": 1}
    for name, value in alone.items():
        if others.get(name, value) not in (value, None):
            raise ConfigError(
                f"batch is given together with {name}={others[name]!r}",
                "The runs of one call begin and stop together, in one slot of the node's process.",
                f"Leave one of them out: batch or {name}.",
            )


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


def outcomes_of(context: Context, returned: Any, own: Masker | None = None) -> list[Outcome]:
    """The outcome of each run that the call had, in the order of its batch.

    A function with batch has returned None, or a list or tuple with the result, or the exception,
    of each run. After anything else all have failed, and are not tried again.
    """
    batch = context._batch
    if batch is None:
        return [outcome_of_result(returned, own)]
    if returned is None:
        return [SUCCEEDED] * len(batch)
    if not isinstance(returned, list | tuple) or len(returned) != len(batch):
        size = f" with {len(returned)} values" if isinstance(returned, list | tuple) else ""
        message = (
            f"a batch of {len(batch)} runs returned {type(returned).__name__}{size}: a handler"
            " with batch returns None, or a list with one result or exception for each run"
        )
        return [Failed("InvalidResult", message, retry=False)] * len(batch)
    return [
        outcome_of_error(each, context)
        if isinstance(each, BaseException)
        else outcome_of_result(each)
        for context, each in zip(batch, returned, strict=True)
    ]


def outcomes_of_error(context: Context, error: BaseException) -> list[Outcome]:
    """As `outcomes_of`, after the function has raised. Runs that nobody asked to stop are given
    back if the call was stopped for others.
    """
    batch = context._batch or [context]
    was_stopped = any(each.stop_reason for each in batch) and is_stop(error)
    return [
        _GIVEN_BACK if was_stopped and each.stop_reason is None else outcome_of_error(error, each)
        for each in batch
    ]
