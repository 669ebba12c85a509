"""The parameters of a handler's function, and how a run's args become their values."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.python.json_kinds import ANYTHING, Kind, Unfit, shown
from pgcron_ha.executors.python.json_shapes import hints_of, kind_of

_CONTEXT_NAMES = ("ctx", "context")
_MAX_KNOWN_KEYS = 64  # sets of arg names remembered as fitting
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Parameters:
    """What the function takes beside its context. ``name`` is the handler's full name.

    Raises `ConfigError` for a callable without a readable signature.
    """

    __slots__ = ("_fitting", "_function", "_kinds", "_name", "_signature", "takes_context")

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
        self._fitting: set[tuple[str, ...]] = set()
        # Found at the first use: a handler may name a class that stands below it.
        self._kinds: dict[str, Kind] | None = None if any(map(_says, self._own())) else {}

    def values(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keyword arguments for the call: ``args`` itself where no annotation is to be judged.

        Raises `InvalidInput`, whose message names the arg, what it is and what is expected.
        """
        keys = tuple(args)
        if keys not in self._fitting:
            self._check_names(args)
            if len(self._fitting) < _MAX_KNOWN_KEYS:
                self._fitting.add(keys)
        kinds = self._kinds
        if kinds is None:
            kinds = self._kinds = self._find_kinds()
        if not kinds or not args:
            return args
        return {
            name: self._value(name, value, kinds[name]) if name in kinds else value
            for name, value in args.items()
        }

    def __str__(self) -> str:
        """As a person reads them: ``(day: date, copies: int = 1)``."""
        return str(self._signature.replace(parameters=self._own(), return_annotation=_NONE))

    def _own(self) -> list[inspect.Parameter]:
        return list(self._signature.parameters.values())[1 if self.takes_context else 0 :]

    def _value(self, name: str, value: Any, kind: Kind) -> Any:
        try:
            return kind.read(value)
        except Unfit as misfit:
            raise self._refused(
                f"the arg '{name}{misfit.path}' of {self._name} is {shown(misfit.value)}; "
                f"expected: {misfit.expected}"
            ) from None
        except Exception as error:  # a validator or __post_init__ of the user's, or too deep JSON
            problem = f"{type(error).__name__}: {error}"
            message = f"the arg '{name}' of {self._name} could not be judged: {problem}"
            raise self._refused(message) from error

    def _find_kinds(self) -> dict[str, Kind]:
        function = _annotated(self._function)
        hints = hints_of(function, _closure(function))
        # Names that only **extra takes are judged by its annotation.
        kinds = {
            each.name: kind_of(hints.get(each.name, Any))
            for each in self._own()
            if each.kind in _BY_NAME
        }
        rest = next((each for each in self._own() if each.kind is each.VAR_KEYWORD), None)
        found = {name: kind for name, kind in kinds.items() if kind is not ANYTHING}
        if rest is None or kind_of(hints.get(rest.name, Any)) is ANYTHING:
            return found
        return _WithRest(found, kinds.keys(), kind_of(hints[rest.name]))

    def _check_names(self, args: Mapping[str, Any]) -> None:
        own = self._own()
        names = [each.name for each in own if each.kind in _BY_NAME]
        takes_any = any(each.kind is each.VAR_KEYWORD for each in own)
        for name in args:
            if name not in names and not takes_any:
                near = difflib.get_close_matches(name, names, n=1)
                guess = f"; did you mean '{near[0]}'?" if near else ""
                raise self._refused(f"{self._name} takes no arg '{name[:100]}'{guess}")
        for each in own:
            if each.kind in _BY_NAME and each.default is each.empty and each.name not in args:
                raise self._refused(f"the arg '{each.name}' of {self._name} is missing")
        try:
            self._signature.bind(*((None,) if self.takes_context else ()), **args)
        except TypeError as error:
            raise self._refused(f"the args don't fit {self._name}: {error}") from None

    def _refused(self, message: str) -> InvalidInput:
        return InvalidInput(
            message,
            f"The args are given by name; its parameters are {self}.",
            "Correct the args, or the function.",
        )


class _WithRest(dict[str, Kind]):
    """Kinds by name; a name that no parameter has is of the kind of ``**rest``."""

    def __init__(self, found: Mapping[str, Kind], names: Any, rest: Kind) -> None:
        super().__init__(found)
        self._names = frozenset(names)
        self._rest = rest

    def __contains__(self, name: object) -> bool:
        return name not in self._names or super().__contains__(name)

    def __missing__(self, name: str) -> Kind:
        return self._rest

    def __bool__(self) -> bool:
        return True


_NONE = inspect.Signature.empty


def _says(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is not parameter.empty


def _annotated(function: Callable[..., Any]) -> Any:
    """What carries the annotations: below wrappers and partials, of an object its ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return vars(function).get("__init__", function)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _closure(function: Any) -> dict[str, Any]:
    """The variables of enclosing functions that it uses: its annotations may, too."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found = {}
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _takes_context(signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation = first.annotation
    # Under `from __future__ import annotations` it is text, with or without a module before it.
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Context"
    return first.name in _CONTEXT_NAMES or annotation is Context or named
