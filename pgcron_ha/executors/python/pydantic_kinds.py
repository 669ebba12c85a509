"""Annotations that are pydantic's are judged by pydantic.

It is never imported here: whoever annotates with it has imported it, and a node whose handlers do
not pays nothing. Version 2 is meant; with version 1 such an arg is passed on as it is.
"""

from __future__ import annotations

import json
import sys
import typing
from typing import Any, Final

from pgcron_ha.executors.python.json_kinds import ANYTHING, Kind, Unfit

MAX_REPORTED_ERRORS: Final = 3
"""Of those found in one arg."""

_MAX_LOOKED_AT: Final = 100  # parts of one annotation


def is_of_pydantic(annotation: Any) -> bool:
    """Whether a model, a type or a constraint of pydantic's is anywhere in it."""
    if "pydantic" not in sys.modules:
        return False
    pending, looked = [annotation], 0
    while pending and looked < _MAX_LOOKED_AT:
        each = pending.pop()
        looked += 1
        if isinstance(each, type) and hasattr(each, "__pydantic_validator__"):
            return True
        place = each if isinstance(each, type) else type(each)
        if place.__module__.partition(".")[0] in ("pydantic", "annotated_types"):
            return True
        pending += typing.get_args(each)
        pending += getattr(each, "__metadata__", ())
    return False


def pydantic_kind(annotation: Any) -> Kind:
    """What pydantic takes for it from JSON."""
    adapter_type = getattr(sys.modules["pydantic"], "TypeAdapter", None)
    if adapter_type is None:  # pydantic 1
        return ANYTHING
    try:
        adapter = adapter_type(annotation)
    except Exception:  # a part of it has no schema: `list[Any] | SomeClass`
        return ANYTHING
    invalid: type[ValueError] = sys.modules["pydantic"].ValidationError
    expected = f"{getattr(annotation, '__name__', annotation)} as pydantic takes it"

    def read(value: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))
        except invalid as error:
            raise _reported(value, error) from None

    return Kind(expected, read)


def _reported(value: Any, error: Any) -> Unfit:
    """The first errors that pydantic found; the first one's place and value lead."""
    errors = error.errors(include_url=False, include_context=False)
    paths = ["".join(_step(each) for each in found["loc"]) for found in errors]
    others = [
        f"at {path or 'the value itself'}: {found['msg']}"
        for path, found in zip(
            paths[1:MAX_REPORTED_ERRORS], errors[1:MAX_REPORTED_ERRORS], strict=True
        )
    ]
    left = len(errors) - MAX_REPORTED_ERRORS
    more = [f"{left} more errors"] if left > 0 else []
    sentence = "; ".join([errors[0]["msg"], *others, *more])
    return Unfit(errors[0].get("input", value), sentence, paths[0])


def _step(place: str | int) -> str:
    return f"[{place}]" if isinstance(place, int) else f".{place}"
