"""A Python function offered as a handler, and how a run's args become its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any

from pgcron_ha.errors import ConfigError, PgcronError
from pgcron_ha.executors.context import Context
from pgcron_ha.executors.coroutines import as_coroutine
from pgcron_ha.executors.failures import bounded_text
from pgcron_ha.executors.outcome import Failed

_CONTEXT_NAMES = ("ctx", "context")
_MAX_KNOWN_KEYS = 64  # sets of argument names remembered as fitting


class PythonHandler:
    """``name`` without ``py:``, the function, and whether it is a coroutine function.

    The function's first positional parameter gets the `Context` if it is named ``ctx`` or
    ``context`` or annotated as Context; the keys of args are keyword arguments. Raises
    `ConfigError` for a callable without a readable signature.
    """

    __slots__ = ("_fitting", "_signature", "function", "is_async", "name", "takes_context")

    def __init__(
        self, name: str, function: Callable[..., Any], is_async: bool | None = None
    ) -> None:
        self.name = name.removeprefix("py:")
        self.function = function
        self.is_async = _is_async(function) if is_async is None else is_async
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the handler {name!r} has no readable signature",
                str(error),
                "wrap it in a function with named parameters",
            ) from None
        self.takes_context = _takes_context(self._signature)
        self._fitting: set[tuple[str, ...]] = set()

    @property
    def full_name(self) -> str:
        """The name runs use: ``py:report``."""
        return f"py:{self.name}"

    def refusal(self, context: Context) -> Failed | None:
        """Why the run's args don't fit the function's parameters; None if they do."""
        try:
            keys = tuple(context.args)
            if keys in self._fitting:
                return None
            positional = (context,) if self.takes_context else ()
            self._signature.bind(*positional, **context.args)
        except PgcronError as error:
            return Failed("InvalidInput", bounded_text(error.message), error.detail, retry=False)
        except TypeError as error:
            message = f"the args don't fit handler {self.full_name!r}: {error}"
            parameters = f"its parameters are {self._signature}"
            return Failed("InvalidInput", bounded_text(message), parameters, retry=False)
        if len(self._fitting) < _MAX_KNOWN_KEYS:
            self._fitting.add(keys)
        return None

    def call(self, context: Context) -> Any:
        """Call the function; for an async one this gives its coroutine."""
        if self.takes_context:
            return self.function(context, **context.args)
        return self.function(**context.args)

    def coroutine(self, context: Context) -> Coroutine[Any, Any, Any]:
        """Call the async function: a coroutine, not yet begun."""
        called = self.call(context)
        return called if type(called) is CoroutineType else as_coroutine(called)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _takes_context(signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation = first.annotation
    # Under `from __future__ import annotations` it is text, with or without a module before it.
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Context"
    return first.name in _CONTEXT_NAMES or annotation is Context or named
