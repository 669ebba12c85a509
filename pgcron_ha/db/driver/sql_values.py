"""JSON to parameters of any type, and rows to JSON: PostgreSQL's own text form both ways."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

_NUMBERS: Final = ("int2", "int4", "int8", "oid")
_TEXTS: Final = (
    *("text", "varchar", "bpchar", "name", "bytea", "uuid", "inet", "cidr", "macaddr", "xml"),
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval", "bit", "varbit", "money"),
)
_OF_JSON: Final = ("json", "jsonb")


async def read_by_text(connection: Any) -> None:
    """From here on a session takes parameters as text, which the server reads by the type it
    expects, and gives values as what JSON can hold.
    """
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(_NUMBERS, int),
        **dict.fromkeys(_TEXTS, str),
        **dict.fromkeys(_OF_JSON, json.loads),
        "bool": lambda text: text == "t",
        "float4": _number,
        "float8": _number,
        "numeric": _number,
    }
    for name, reader in readers.items():
        await connection.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=json.dumps if name in _OF_JSON else as_text,
            decoder=reader,
            format="text",
        )


def as_text(value: object) -> str:
    """A value of JSON as PostgreSQL reads it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def as_json(value: Any) -> Any:
    """What a session gave, as JSON can hold it: rows of rows, arrays, and texts of the rest."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): as_json(each) for key, each in value.items()}
    if hasattr(value, "items"):  # a record
        return {key: as_json(each) for key, each in value.items()}
    return str(value)


def _number(text: str) -> Any:
    """A number if JSON's can say the same, else its text: money must not be rounded."""
    try:
        exact = Decimal(text)
    except ArithmeticError:
        return text
    if not exact.is_finite():
        return text
    if exact == exact.to_integral_value():
        return int(exact) if abs(exact) < 10**18 else text
    near = float(exact)
    return near if math.isfinite(near) and Decimal(repr(near)) == exact else text
