"""The spec of a schedule as a row of the database has it."""

from __future__ import annotations

import json
from typing import Any, Protocol

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.calendars.calendar import Calendars
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.spec import Spec, parse_spec


class ScheduleRow(Protocol):
    """A record or mapping that says ``spec``, ``timezone``, ``dst``, ``uuid`` and ``calendars``."""

    def __getitem__(self, key: str, /) -> Any:
        """The value of a column."""


def spec_of(row: ScheduleRow) -> Spec:
    """Raises as `parse_spec`, and `InvalidInput` for a policy that another version knows."""
    dst = DstPolicy.parse(row["dst"])
    calendars = calendars_in(row["calendars"])
    return parse_spec(row["spec"], row["timezone"], dst, str(row["uuid"]), calendars)


def calendars_in(column: Any) -> Calendars:
    """The value of the column from any driver: None, JSON text, or a mapping. Raises `InvalidSpec`
    for anything else.
    """
    try:
        contents = json.loads(column) if isinstance(column, str) else column
        calendars = tuple(sorted((contents or {}).items()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        calendars = ((column, None),)
    if not all(isinstance(text, str) for calendar in calendars for text in calendar):
        raise InvalidSpec(
            "the schedule's copy of its calendars can't be read",
            "it is an object that has the text of each calendar by its name",
            "put the calendars, or the schedule, again",
        )
    return calendars
