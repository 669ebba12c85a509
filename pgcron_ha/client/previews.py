"""What a schedule will do, from its row: for the command line and the pages alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pgcron_ha.db.schedule_policies import SchedulePolicies
from pgcron_ha.model.preview import Preview, preview
from pgcron_ha.model.schedule_spec import spec_of


def schedule_preview(row: Mapping[str, Any], after: datetime, count: int) -> Preview:
    """The next fires of a row that has spec, timezone, dst, uuid and any of the policies, as if it
    were not paused. Raises as `spec_of`.
    """
    return preview(spec_of(row), after, count, policies_in(row))


def policies_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the row's values that are policies."""
    return {name: row[name] for name in SchedulePolicies.__annotations__ if name in row}
