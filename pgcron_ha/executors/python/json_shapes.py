"""From an annotation to its `Kind`: unions, collections and records."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any, Final

from pgcron_ha.executors.python.json_kinds import (
    ANYTHING,
    Kind,
    Unfit,
    literal_kind,
    plain_kind,
    shown_list,
)
from pgcron_ha.executors.python.pydantic_kinds import is_of_pydantic, pydantic_kind

MAX_DEPTH = 20
"""Of an annotation's own nesting; a deeper one is not judged."""

_COLLECTIONS: Final[dict[object, Callable[[Any], Any]]] = {
    list: list,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    set: set,
    abc.Set: set,
    abc.MutableSet: set,
    frozenset: frozenset,
}
_MAPPINGS: Final = (dict, abc.Mapping, abc.MutableMapping)
_TRANSPARENT: Final = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final)


def kind_of(annotation: Any, depth: int = 0) -> Kind:
    """What the annotation takes; `ANYTHING` for one that can't be judged."""
    if depth > MAX_DEPTH:
        return ANYTHING
    if is_of_pydantic(annotation):
        return pydantic_kind(annotation)
    plain = plain_kind(annotation)
    if plain is not None:
        return plain
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _TRANSPARENT:
        return kind_of(members[0], depth + 1)
    if origin is typing.Literal:
        return literal_kind(members)
    if origin in (typing.Union, types.UnionType):
        return _union_kind([kind_of(each, depth + 1) for each in members])
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if named is not None:  # NewType, and Python 3.12's `type`
        return kind_of(named, depth + 1)
    return _shape_of(origin or annotation, members, depth + 1)


def _shape_of(shape: Any, members: tuple[Any, ...], depth: int) -> Kind:
    if shape is tuple:
        return _tuple_kind(members, depth)
    if shape in _COLLECTIONS:
        item = kind_of(members[0], depth) if members else ANYTHING
        return _list_kind(item, _COLLECTIONS[shape])
    if shape in _MAPPINGS:
        of_keys, of_values = members if members else (str, Any)
        return _mapping_kind(kind_of(of_keys, depth), kind_of(of_values, depth))
    if isinstance(shape, type):
        return _record_kind(shape, depth)
    return ANYTHING


def _union_kind(members: list[Kind]) -> Kind:
    expected = " or ".join(dict.fromkeys(member.expected for member in members))

    def read(value: Any) -> Any:
        misfits = []
        for member in members:
            try:
                return member.read(value)
            except Unfit as misfit:
                misfits.append(misfit)
        # The member that took the value's outside says what is wrong inside.
        inside = [misfit for misfit in misfits if misfit.path]
        raise inside[0] if len(inside) == 1 else Unfit(value, expected)

    if all(member is ANYTHING for member in members):
        return ANYTHING
    return Kind(expected, read)


def _list_kind(item: Kind, make: Callable[[Any], Any]) -> Kind:
    expected = "a list" if item is ANYTHING else f"a list, each item {item.expected}"

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise Unfit(value, expected)
        try:
            return make([_at(f"[{place}]", item, each) for place, each in enumerate(value)])
        except TypeError:  # a set of what can't be in one
            raise Unfit(value, expected) from None

    return Kind(expected, read)


def _tuple_kind(members: tuple[Any, ...], depth: int) -> Kind:
    if not members or members[-1] is ...:
        return _list_kind(kind_of(members[0], depth) if members else ANYTHING, tuple)
    kinds = [kind_of(each, depth) for each in members]
    expected = f"a list of {len(kinds)}: {', '.join(kind.expected for kind in kinds)}"

    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise Unfit(value, expected)
        places = enumerate(zip(kinds, value, strict=True))
        return tuple(_at(f"[{place}]", kind, each) for place, (kind, each) in places)

    return Kind(expected, read)


def _mapping_kind(of_keys: Kind, of_values: Kind) -> Kind:
    expected = "an object"
    if of_values is not ANYTHING:
        expected += f", each value {of_values.expected}"

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Unfit(value, expected)
        return {_key(of_keys, key): _at(f".{key}", of_values, each) for key, each in value.items()}

    return Kind(expected, read)


def _key(kind: Kind, key: str) -> Any:
    """JSON's keys are text; a number among them is read from it."""
    try:
        return kind.read(key)
    except Unfit as misfit:
        try:
            return kind.read(json.loads(key))
        except (Unfit, ValueError):
            raise misfit.under(f".{key}") from None


def _at(step: str, kind: Kind, value: Any) -> Any:
    try:
        return kind.read(value)
    except Unfit as misfit:
        raise misfit.under(step) from None


# Records: an object whose members are known by name.


def _record_kind(annotation: type, depth: int) -> Kind:
    """A dataclass, a named tuple or a TypedDict."""
    if dataclasses.is_dataclass(annotation):
        fields = [field for field in dataclasses.fields(annotation) if field.init]
        missing = dataclasses.MISSING
        required = {
            field.name
            for field in fields
            if field.default is missing and field.default_factory is missing
        }
        return _Record(annotation, [field.name for field in fields], required, depth).kind()
    if typing.is_typeddict(annotation):
        required = set(vars(annotation)["__required_keys__"])
        return _Record(annotation, list(annotation.__annotations__), required, depth).kind()
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        required = set(annotation._fields) - set(vars(annotation)["_field_defaults"])
        return _Record(annotation, list(annotation._fields), required, depth).kind()
    return ANYTHING


class _Record:
    """The kinds of its members are found when it is first read: it may contain itself."""

    def __init__(self, shape: type, names: list[str], required: set[str], depth: int) -> None:
        self._shape = shape
        self._names = names
        self._required = required
        self._depth = depth
        self._kinds: dict[str, Kind] | None = None

    def kind(self) -> Kind:
        return Kind(f"an object with {', '.join(self._names) or 'nothing in it'}", self._read)

    def _read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Unfit(value, self.kind().expected)
        unknown = [name for name in value if name not in self._names]
        if unknown:
            known = f"no such name; there are {shown_list(self._names)}"
            raise Unfit(value[unknown[0]], known, f".{unknown[0]}")
        for name in self._names:
            if name in self._required and name not in value:
                raise Unfit(value, f"an object with {name!r}")
        if self._kinds is None:
            hints = hints_of(self._shape)
            self._kinds = {name: kind_of(hints.get(name, Any)) for name in self._names}
        kinds = self._kinds
        members = {name: _at(f".{name}", kinds[name], each) for name, each in value.items()}
        try:
            return self._shape(**members)
        except (TypeError, ValueError) as error:  # its own __post_init__ refuses
            raise Unfit(value, f"what {self._shape.__name__} takes ({error})") from None


def hints_of(annotated: Any, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a function or class; those that can't be found are left out."""
    try:
        return typing.get_type_hints(annotated, localns=dict(names or {}), include_extras=True)
    except Exception:  # one name that only a type checker knows must not hide the others
        pass
    module = sys.modules.get(getattr(annotated, "__module__", ""), None)
    outer = getattr(annotated, "__globals__", None) or vars(module) if module else {}
    found: dict[str, Any] = {}
    for name, annotation in getattr(annotated, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            found |= typing.get_type_hints(alone, outer, dict(names or {}), include_extras=True)
        except Exception:
            continue
    return found
