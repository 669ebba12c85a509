"""The spec of a schedule as a row of the database has it."""

from __future__ import annotations

from typing import Any, Protocol

from pgcron_ha.model.cron import DstPolicy
from pgcron_ha.model.spec import Spec, parse_spec


class ScheduleRow(Protocol):
    """A record or mapping that says ``spec``, ``timezone``, ``dst`` and ``uuid``."""

    def __getitem__(self, key: str, /) -> Any:
        """The value of a column."""


def spec_of(row: ScheduleRow) -> Spec:
    """Raises as `parse_spec`, and `InvalidInput` for a policy that another version knows."""
    dst = DstPolicy.parse(row["dst"])
    return parse_spec(row["spec"], row["timezone"], dst, str(row["uuid"]))
