"""The annotations of a function, and what pydantic makes of JSON by them.

Strictly: the text ``"5"`` is no number, ``true`` is none, and a name that a dataclass does not have
is refused. Instants, dates, durations (ISO 8601), UUIDs, decimals and paths are text, enums their
values. Pydantic's own models say themselves how strict they are. JSON has no values of any other
class. What has no schema, such as a protocol, is not checked.

pydantic takes 12 MB and a tenth of a second: a value that is what is annotated, such as a text for
``str | None``, does without it.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

MAX_SHOWN_CHARACTERS: Final = 100
"""Of a value in a message."""
MAX_REPORTED_ERRORS: Final = 3
"""Of those found in one arg."""

# A value of JSON that is of one of these classes is what is annotated.
_PLAIN: Final = (str, int, float, bool, dict, list, types.NoneType, Any, inspect.Parameter.empty)
_PLAIN_NAMES: Final = ("str", "int", "float", "bool", "dict", "list", "None", "Any")

Reader = Callable[[str, Any], Any]
"""Takes the arg's name and its value as JSON has it, and gives the value that the annotation names.

Raises `Unfit`, and whatever a validator of the user's raises.
"""


class Unfit(Exception):
    """The value does not match the annotation: each place in it, the value there, and the rule."""


def readers_of(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> dict[str, Reader]:
    """For the parameters whose annotation can be checked, by their names."""
    function = _innermost(function)
    known = getattr(function, "__globals__", {})
    enclosing = _enclosing(function)
    found = {}
    for each in parameters:
        # Each by itself: a name that only a type checker knows must not hide the others.
        alone = types.SimpleNamespace(__annotations__={each.name: each.annotation})
        try:
            hints = typing.get_type_hints(alone, known, enclosing, include_extras=True)
        except Exception:  # what an annotation in quotes raises is its own
            continue
        if each.annotation is not each.empty and hints[each.name] is not Any:
            found[each.name] = _reader(hints[each.name])
    return found


def is_plain(parameter: inspect.Parameter) -> bool:
    """Whether values that fit are checked without pydantic."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return all(part.strip() in _PLAIN_NAMES for part in annotation.split("|"))
    return all(kind in _PLAIN for kind in _kinds(annotation))


def shown(value: object) -> str:
    """A value as JSON, or what is nearest to it, cut to be read in a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _reader(annotation: Any) -> Reader:
    by_pydantic = functools.cache(functools.partial(_reader_of_pydantic, annotation))
    kinds = _kinds(annotation)

    def read(name: str, value: Any) -> Any:
        kind = type(value)
        if kind in kinds:
            return value
        if kind is int and float in kinds:
            return float(value)
        return by_pydantic()(name, value)

    return read


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The classes of ``str | None``; the annotation alone where one of them reads texts its way."""
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
