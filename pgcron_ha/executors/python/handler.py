"""A Python function offered as a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from types import CoroutineType
from typing import Any

from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import STOP, LeaseLoss
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.coroutines import as_coroutine
from pgcron_ha.executors.contract.failures import bounded_text, refused
from pgcron_ha.executors.contract.outcome import Failed
from pgcron_ha.executors.python.isolation import Isolation
from pgcron_ha.executors.python.parameters import Parameters


class PythonHandler:
    """``name`` without ``py:``, the function, whether it is a coroutine function, and whether it
    asks for its own process; ``weight`` is how many slots of a node it takes. ``on_loop`` and
    ``in_thread`` say where a node executes it.

    The function's first positional parameter gets the `Context` if it is named ``ctx`` or
    ``context`` or annotated as Context; the keys of args are keyword arguments, checked and
    converted by the annotations of their parameters (`pgcron_ha.executors.python.annotations`).
    Raises `ConfigError` for a callable without a readable signature.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        is_async: bool | None = None,
        isolation: Isolation | None = None,
        weight: int = 1,
    ) -> None:
        self.name = name.removeprefix("py:")
        self.function = function
        self.is_async = _is_async(function) if is_async is None else is_async
        self.isolation = isolation
        self.on_lease_loss: LeaseLoss = STOP
        self.weight = weight
        self.on_loop = self.is_async and isolation is None
        self.in_thread = not self.is_async and isolation is None
        self._parameters = Parameters(self.full_name, function)
        self.takes_context = self._parameters.takes_context

    @property
    def full_name(self) -> str:
        """The name runs use: ``py:report``."""
        return f"py:{self.name}"

    def here(self) -> PythonHandler:
        """The same in the process that executes it: on a loop or in a thread."""
        return PythonHandler(self.name, self.function, self.is_async)

    def check_args(self, args: Mapping[str, Any]) -> None:
        """Raise `InvalidInput` if a run with these args, as JSON gives them, would be refused."""
        self._parameters.values(args)

    def refusal(self, context: Context) -> Failed | None:
        """Why the run's args don't fit the function's parameters; None if they do, and then the
        context has the values for the call.
        """
        try:
            context._values = self._parameters.values(context.args)
        except PgcronError as error:
            return refused(error)
        except BaseException as error:  # SystemExit in a validator
            return Failed(type(error).__name__, bounded_text(f"checking the args: {error!r}"))
        return None

    def call(self, context: Context) -> Any:
        """Call the function; for an async one this gives its coroutine. After `refusal`."""
        if self.takes_context:
            return self.function(context, **context._values)
        return self.function(**context._values)

    def coroutine(self, context: Context) -> Coroutine[Any, Any, Any]:
        """Call the async function: a coroutine, not yet begun."""
        called = self.call(context)
        return called if type(called) is CoroutineType else as_coroutine(called)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )
