"""The parameters of a handler's function, and how a run's args become their values."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.python.annotations import Reader, Unfit, is_plain, readers_of

_CONTEXT_NAMES = ("ctx", "context")
_EMPTY = inspect.Parameter.empty
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameters:
    """What the function takes beside its context. ``name`` is the handler's full name.

    Raises `ConfigError` for a callable without a readable signature.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the handler {name!r} has no readable signature",
                str(error),
                "wrap it in a function with named parameters",
            ) from None
        self.takes_context = _takes_context(self._signature)
        self._own = list(self._signature.parameters.values())[1 if self.takes_context else 0 :]
        self._names = frozenset(each.name for each in self._own if each.kind in _BY_NAME)
        self._required = [
            each.name for each in self._own if each.default is _EMPTY and each.kind not in _REST
        ]
        rest = (each.name for each in self._own if each.kind is each.VAR_KEYWORD)
        self._rest = next(rest, None)
        # Made at the first use: a handler may name a class that is defined below it.
        self._readers: dict[str, Reader] | None = None
        if not all(map(is_plain, self._own)):
            importlib.import_module("pydantic")  # here, and not while the first run waits

    def values(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keyword arguments for the call: ``args`` itself if there is no annotation to check.

        Raises `InvalidInput`; the message names the arg, its value and what is expected.
        """
        self._check_names(args)
        if self._readers is None:
            self._readers = readers_of(self._function, self._own)
        if not self._readers:
            return args
        return {name: self._value(name, value, self._readers) for name, value in args.items()}

    def __str__(self) -> str:
        """As a person reads them: ``(day: date, copies: int = 1)``."""
        return str(self._signature.replace(parameters=self._own, return_annotation=_EMPTY))

    def _value(self, name: str, value: Any, readers: Mapping[str, Reader]) -> Any:
        # Names that only **rest takes are checked by its annotation.
        reader = readers.get(name if name in self._names else self._rest or "")
        if reader is None:
            return value
        try:
            return reader(name, value)
        except Unfit as misfit:
            raise self._refused(f"the args don't fit {self._name}: {misfit}") from None
        except Exception as error:  # a validator or __post_init__ of the user's, or too deep JSON
            problem = f"{type(error).__name__}: {error}"
            message = f"the arg '{name}' of {self._name} could not be checked: {problem}"
            raise self._refused(message) from error

    def _check_names(self, args: Mapping[str, Any]) -> None:
        for name in args if self._rest is None else ():
            if name not in self._names:
                near = difflib.get_close_matches(name, self._names, n=1)
                guess = f"; did you mean '{near[0]}'?" if near else ""
                raise self._refused(f"{self._name} takes no arg '{name[:100]}'{guess}")
        for name in self._required:
            if name not in args:
                raise self._refused(f"the arg '{name}' of {self._name} is missing")

    def _refused(self, message: str) -> InvalidInput:
        return InvalidInput(
            message,
            f"The args are given by name; its parameters are {self}.",
            "Correct the args, or the function.",
        )


def _takes_context(signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation = first.annotation
    # Under `from __future__ import annotations` it is text, with or without a module before it.
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Context"
    return first.name in _CONTEXT_NAMES or annotation is Context or named
