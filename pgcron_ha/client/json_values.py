"""Values that JSON has no word for, written as a handler's annotations read them."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID


def json_value(value: Any) -> Any:
    """For `json.JSONEncoder.default`: instants and dates as ISO 8601, durations as seconds, UUIDs,
    decimals and paths as text, enums as their values, sets as lists, dataclasses and pydantic
    models as objects. Raises TypeError for anything else.
    """
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")
