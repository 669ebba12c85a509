"""Args and results as JSON: what values become that JSON does not have, and how deep they may be
nested, so that any parser can read them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

MOST_LEVELS: Final = 100
"""The nesting depth of args and of results at most."""

_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")


def compact(value: Any) -> str:
    """As JSON text without needless room. Raises ValueError for NaN and infinity, and as
    `json_value`.
    """
    return json.dumps(
        value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=json_value
    )


def json_value(value: object) -> object:
    """For values that JSON does not have: dates, durations, models, … as annotations read them.
    Raises ValueError for what has no such form.
    """
    import pydantic_core  # takes memory, and most args and results need none of it

    return pydantic_core.to_jsonable_python(value, fallback=_refuse)


def _refuse(value: object) -> NoReturn:
    # The text of a workflow's path is an error, which says where a path may stand.
    raise ValueError(f"{value!s:.100} has no form as JSON")


def read_json(text: str) -> Any:
    """As JSON has it, without NaN and Infinity. Raises ValueError or RecursionError."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def levels_of(text: str) -> int:
    """The nesting depth of JSON text; an upper bound of it while that is within `MOST_LEVELS`."""
    most = text.count("[") + text.count("{")
    if most <= MOST_LEVELS:
        return most
    level = most = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        most = max(most, level)
    return most
