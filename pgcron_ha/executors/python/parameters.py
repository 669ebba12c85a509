"""The parameters of a handler's function, and how a run's args become their values.

pydantic converts them by the annotations, strictly: the text ``"5"`` is no number, ``true`` is
none, and a name that a dataclass does not have is refused. Instants, dates, durations (ISO 8601),
UUIDs, decimals and paths are text, enums their values. Pydantic's own models say themselves how
strict they are. JSON has no values of any other class. What has no schema, such as a protocol, is
not checked.

pydantic takes 12 MB and a tenth of a second: a value that is what is annotated, such as a text for
``str | None``, does without it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pgcron_ha.config.values import did_you_mean
from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.secret_values import is_encrypted, is_marked, unmarked

_CONTEXT_NAMES = ("ctx", "context")
_EMPTY = inspect.Parameter.empty
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_HINT: Final = "Correct the args, or the function."

MAX_SHOWN_CHARACTERS: Final = 100
"""Of a value in a message."""
MAX_REPORTED_ERRORS: Final = 3
"""Of those found in one arg."""

# A value of JSON that is of one of these classes is what is annotated.
_PLAIN: Final = (str, int, float, bool, dict, list, types.NoneType, Any)

Reader = Callable[[str, Any], Any]
"""Takes the arg's name and its value as JSON has it, and gives the value that the annotation names.

Raises `Unfit`, and whatever a validator of the user's raises.
"""


class Unfit(Exception):
    """The value does not match the annotation: each place in it, the value there, and the rule."""


class Parameters:
    """What the function takes beside its context. ``name`` is the handler's full name.

    Raises `ConfigError` for a callable without a readable signature, or with a context elsewhere.
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
        for each in self._own:
            if each.name in _CONTEXT_NAMES and each.kind not in _REST:
                raise ConfigError(
                    f"the parameter '{each.name}' of the handler {name!r} is in the wrong place",
                    "A run's context is given to the first parameter. The others get the args, by "
                    "name, and none of those is named context or ctx.",
                    "Write the context first, or give the arg another name.",
                )
        self._names = frozenset(each.name for each in self._own if each.kind in _BY_NAME)
        self._required = [
            each.name for each in self._own if each.default is _EMPTY and each.kind not in _REST
        ]
        self._rest = next((each.name for each in self._own if each.kind is each.VAR_KEYWORD), None)
        kinds = (kind for _, hint in self._hints() for kind in _kinds(unmarked(hint)))
        if not all(kind in _PLAIN for kind in kinds):
            importlib.import_module("pydantic")  # here, and not while the first run waits

    def values(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keyword arguments for the call: ``args`` itself if its values are what is annotated.

        Raises `InvalidInput`; the message names the arg, its value and what is expected.
        """
        fitting = self._fitting
        for name, value in args.items():
            if type(value) not in fitting.get(name, ()):
                break
        else:
            if all(map(args.__contains__, self._required)):
                return args
        self._check_names(args)
        return {name: self._value(name, value) for name, value in args.items()}

    # Both are made at the first use: a handler may name a class that is defined below it.

    @functools.cached_property
    def _readers(self) -> dict[str, _Reader]:
        return {name: _Reader(unmarked(hint)) for name, hint in self._hints()}

    @functools.cached_property
    def _fitting(self) -> dict[str, tuple[Any, ...]]:
        """The classes of the values that each parameter takes as they are."""
        return {name: getattr(self._readers.get(name), "kinds", _PLAIN) for name in self._names}

    @functools.cached_property
    def secrets(self) -> frozenset[str]:
        """The parameters that are marked as secret."""
        return frozenset(name for name, hint in self._hints() if is_marked(hint))

    def is_secret(self, name: str) -> bool:
        """Whether the arg of this name is."""
        return (name if name in self._names else self._rest) in self.secrets

    def __str__(self) -> str:
        """As a person reads them: ``(day: date, copies: int = 1)``."""
        return str(self._signature.replace(parameters=self._own, return_annotation=_EMPTY))

    def _hints(self) -> Iterator[tuple[str, Any]]:
        return _hints_of(self._function, {each.name: each.annotation for each in self._own})

    def _value(self, name: str, value: Any) -> Any:
        # Names that only **rest takes are checked by its annotation.
        reader = self._readers.get(name if name in self._names else self._rest or "")
        is_secret = self.is_secret(name)
        if reader is None or (is_secret and is_encrypted(value)):
            return value
        try:
            return reader(name, value)
        except Exception as error:
            is_misfit = isinstance(error, Unfit)
            if is_secret:  # what the error says may have the value
                how = "is not what is annotated" if is_misfit else "could not be checked"
                raise self._refused(f"the secret arg '{name}' of {self._name} {how}") from None
            if not is_misfit:  # a validator or __post_init__ of the user's, or too deep JSON
                problem = f"{type(error).__name__}: {error}"
                message = f"the arg '{name}' of {self._name} could not be checked: {problem}"
                raise self._refused(message) from error
            hint = _HINT
            if isinstance(value, int | float) and "valid string" in str(error):
                text = f"{name}='{json.dumps(json.dumps(value))}'"
                hint = f"{hint} On the command line this text is written {text}."
            raise self._refused(f"the args don't fit {self._name}: {error}", hint) from None

    def _check_names(self, args: Mapping[str, Any]) -> None:
        for name in args if self._rest is None else ():
            if name not in self._names:
                guess = did_you_mean(name, self._names)
                raise self._refused(f"{self._name} takes no arg '{name[:100]}'{guess}")
        for name in self._required:
            if name not in args:
                raise self._refused(f"the arg '{name}' of {self._name} is missing")

    def _refused(self, message: str, hint: str = _HINT) -> InvalidInput:
        rule = f"The args are given by name; its parameters are {self}."
        return InvalidInput(message, rule, hint)


def _takes_context(signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    annotation = first.annotation
    # Under `from __future__ import annotations` it is text, with or without a module before it.
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == "Context"
    return first.name in _CONTEXT_NAMES or annotation is Context or named


def _hints_of(
    function: Callable[..., Any], annotations: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """What the annotations mean, where there is one; the text of one that can't be read."""
    function = _innermost(function)
    known = getattr(function, "__globals__", {})
    enclosing = _enclosing(function)
    for name, annotation in annotations.items():
        # Each by itself: a name that only a type checker knows must not hide the others.
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        if annotation is _EMPTY:
            continue
        try:
            yield name, typing.get_type_hints(alone, known, enclosing, include_extras=True)[name]
        except Exception:  # what an annotation in quotes raises is its own
            yield name, annotation


def returns_secret(function: Callable[..., Any]) -> bool:
    """Whether its result is marked as secret."""
    annotation = inspect.signature(function).return_annotation
    return any(is_marked(hint) for _, hint in _hints_of(function, {"return": annotation}))


def shown(value: object) -> str:
    """A value as JSON, or what is nearest to it, cut to be read in a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"


class _Reader:
    def __init__(self, annotation: Any) -> None:
        self._by_pydantic = functools.cache(functools.partial(_reader_of_pydantic, annotation))
        self.kinds = _kinds(annotation)

    def __call__(self, name: str, value: Any) -> Any:
        kind = type(value)
        if kind in self.kinds:
            return value
        if kind is int and float in self.kinds:
            return float(value)
        return self._by_pydantic()(name, value)


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The classes of ``str | None``; the annotation alone where one of them reads texts its way.
    All that JSON has for Any, and for the text of an annotation that can't be read.
    """
    if annotation is Any or isinstance(annotation, str):
        return _PLAIN
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    kinds = typing.get_args(annotation) if is_union else ()
    return kinds if kinds and all(kind in _PLAIN for kind in kinds) else (annotation,)


def _reader_of_pydantic(annotation: Any) -> Reader:
    import pydantic
    import pydantic_core

    configuration = pydantic.ConfigDict(
        strict=True,
        extra="forbid",
        arbitrary_types_allowed=True,  # members with a default may be of any class
    )
    try:  # in a tuple, as models and dataclasses by themselves refuse a configuration
        validator = pydantic.TypeAdapter(tuple[annotation], config=configuration).validator
    except Exception:  # there is no schema; what a metaclass raises is its own
        return lambda _, value: value

    def read(name: str, value: Any) -> Any:
        try:
            return validator.validate_json(pydantic_core.to_json([value]))[0]
        except pydantic_core.ValidationError as error:
            raise Unfit(_sentences(name, error)) from None

    return read


def _sentences(name: str, error: Any) -> str:
    errors = error.errors(include_url=False, include_context=False)
    sentences = [_sentence(name, each) for each in errors[:MAX_REPORTED_ERRORS]]
    if len(errors) > MAX_REPORTED_ERRORS:
        sentences.append(f"{len(errors) - MAX_REPORTED_ERRORS} more errors")
    return "; ".join(sentences)


def _sentence(name: str, error: Mapping[str, Any]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"][1:])
    place = name + "".join(steps)
    if error["type"] == "missing":
        return f"'{place}' is missing"
    is_class = error["type"] == "needs_python_object"
    rule = "JSON has no values of the class that is annotated" if is_class else error["msg"]
    return f"'{place}' is {shown(error['input'])}: {rule}"


def _innermost(function: Callable[..., Any]) -> Any:
    """What carries the annotations: below wrappers and partials, of an object its ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return vars(function).get("__init__", function)
    return function if inspect.isroutine(function) else type(function).__call__


def _enclosing(function: Any) -> dict[str, Any]:
    """The variables of enclosing functions that it uses: its annotations may, too."""
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):  # not written in Python; one is not assigned yet
        return {}
