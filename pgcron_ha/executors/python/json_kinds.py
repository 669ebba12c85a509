"""What an annotation takes from JSON: judged, and made into the Python value it names.

Judged are ``str``, ``int``, ``float``, ``bool``, ``None``, ``Decimal``, ``datetime``, ``date``,
``time``, ``timedelta``, ``UUID``, ``Path``, enums by their values, ``Literal``, unions (the first
member that fits), lists, sets, tuples, mappings, dataclasses, named tuples, ``TypedDict``, and
whatever is pydantic's, by pydantic itself. An annotation of any other kind takes what is given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pgcron_ha.config.values import parse_duration

MAX_SHOWN_CHARACTERS = 100
"""Of a value in a message."""

_ISO_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?=.)(?:(?P<hours>\d{1,8})H)?(?:(?P<minutes>\d{1,8})M)?"
    r"(?:(?P<seconds>\d{1,10}(?:\.\d{1,6})?)S)?)?"
)


class Unfit(Exception):
    """``value`` is not what is ``expected``; ``path`` leads to it from the arg's name."""

    def __init__(self, value: object, expected: str, path: str = "") -> None:
        super().__init__(expected)
        self.value = value
        self.expected = expected
        self.path = path

    def under(self, step: str) -> Unfit:
        """The same, one step further from it."""
        self.path = step + self.path
        return self


@dataclass(frozen=True, slots=True)
class Kind:
    """``expected`` words what is taken; ``read`` gives the Python value, or raises `Unfit`."""

    expected: str
    read: Callable[[Any], Any]


ANYTHING = Kind("anything", lambda value: value)
"""Takes what is given: the annotation says nothing that could be judged."""


def plain_kind(annotation: object) -> Kind | None:
    """The kind of a class that has one by itself; None for every other annotation."""
    if annotation is None or annotation is type(None):
        return _NULL
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return enum_kind(annotation)
    return _PLAIN.get(annotation)


def enum_kind(annotation: type[Enum]) -> Kind:
    """One of the members, by its value."""
    members = {_key(member.value): member for member in annotation}
    return _one_of(members, [member.value for member in annotation])


def literal_kind(values: tuple[Any, ...]) -> Kind:
    """One of the values; a member of an enum by its value."""
    plain = [value.value if isinstance(value, Enum) else value for value in values]
    members = {_key(each): value for each, value in zip(plain, values, strict=True)}
    return _one_of(members, plain)


def shown(value: object) -> str:
    """A value as JSON, or what is nearest to it, cut to be read in a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _one_of(members: dict[tuple[type, Any], Any], values: list[Any]) -> Kind:
    expected = f"one of {shown_list(values)}"

    def read(value: Any) -> Any:
        try:
            return members[_key(value)]
        except (KeyError, TypeError):
            raise Unfit(value, expected) from None

    return Kind(expected, read)


def shown_list(values: list[Any]) -> str:
    """Values as JSON with commas; only the first of many."""
    most = 20
    text = ", ".join(map(shown, values[:most]))
    return text if len(values) <= most else f"{text} … ({len(values)})"


def _key(value: Any) -> tuple[type, Any]:
    """Tells 1 from true, as JSON does; enums of texts and numbers are compared by these."""
    for plain in (str, int, float):
        if isinstance(value, plain) and not isinstance(value, bool):
            return plain, value
    return type(value), value


def _kind(expected: str) -> Callable[[Callable[[Any], Any]], Kind]:
    """Makes a kind of a reader that returns `NotImplemented` or raises ValueError for what does
    not fit.
    """

    def make(convert: Callable[[Any], Any]) -> Kind:
        def read(value: Any) -> Any:
            try:
                converted = convert(value)
            except (ValueError, OverflowError, InvalidOperation):
                converted = NotImplemented
            if converted is NotImplemented:
                raise Unfit(value, expected)
            return converted

        return Kind(expected, read)

    return make


def _text_kind(expected: str, convert: Callable[[str], Any]) -> Kind:
    def read(value: Any) -> Any:
        return convert(value) if isinstance(value, str) else NotImplemented

    return _kind(expected)(read)


@_kind("null")
def _NULL(value: Any) -> Any:  # noqa: N802 - it is a constant: the decorator makes a Kind of it
    return None if value is None else NotImplemented


@_kind("true or false")
def _TRUTH(value: Any) -> Any:  # noqa: N802
    return value if isinstance(value, bool) else NotImplemented


@_kind("a whole number")
def _WHOLE_NUMBER(value: Any) -> Any:  # noqa: N802
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NotImplemented
    return int(value) if value == int(value) else NotImplemented


@_kind("a number")
def _NUMBER(value: Any) -> Any:  # noqa: N802
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NotImplemented
    return float(value) if math.isfinite(value) else NotImplemented


@_kind('a decimal number, such as "12.50"')
def _DECIMAL(value: Any) -> Any:  # noqa: N802
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return NotImplemented
    number = Decimal(str(value))
    return number if number.is_finite() else NotImplemented


@_kind('a duration: seconds, or text such as "90s", "1h30m" or "PT1H30M"')
def _DURATION(value: Any) -> Any:  # noqa: N802
    if isinstance(value, str):
        found = _ISO_DURATION.fullmatch(value)
        if found is None:
            return timedelta(seconds=parse_duration(value))
        return timedelta(**{unit: float(count or 0) for unit, count in found.groupdict().items()})
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NotImplemented
    return timedelta(seconds=value)


_PLAIN: Final[dict[object, Kind]] = {
    str: _text_kind("text", str),
    bool: _TRUTH,
    int: _WHOLE_NUMBER,
    float: _NUMBER,
    Decimal: _DECIMAL,
    timedelta: _DURATION,
    datetime: _text_kind('an instant, such as "2026-01-31T09:00:00Z"', datetime.fromisoformat),
    date: _text_kind('a date, such as "2026-01-31"', date.fromisoformat),
    time: _text_kind('a time of day, such as "09:00"', time.fromisoformat),
    UUID: _text_kind("a UUID", UUID),
    Path: _text_kind("a path", Path),
}
