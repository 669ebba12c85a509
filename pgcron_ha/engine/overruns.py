"""Runs that last longer than their schedule's history lets expect are told, each once."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.link import Link
from pgcron_ha.telemetry.events import RunOverruns
from pgcron_ha.telemetry.log import emit

_AT_ONCE: Final = 200
"""Long runs that one look compares with what was expected of them."""


async def notice_overruns(link: Link) -> int:
    """How many are new to everybody; which node tells of one is decided by the database."""
    rows = await link.rows("notice_overruns", at_most=_AT_ONCE)
    for row in rows:
        emit(RunOverruns(row["run_id"], row["schedule"], row["expected"], row["taken"]))
    return len(rows)
