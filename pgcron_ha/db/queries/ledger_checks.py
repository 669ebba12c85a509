"""What a check of the ledger reads: rows that contradict each other, and what the specs are
compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.rows import Row, Rows

MOST_SCHEDULES: Final = 1000


@dataclass(frozen=True)
class LedgerOf:
    """A schedule's ledger after an instant, and its versions that held then."""

    after: datetime
    until: datetime
    """Its watermark, or earlier: later rows were too many to be read."""
    versions: list[Row]
    fires: dict[datetime, bool]
    """Single ones, each with whether somebody put it there, and not the spec."""
    ranges: list[tuple[datetime, datetime]]
    """Of fires that were dropped together, both ends included."""


broken_rows: Final = Rows("check_ledger", schedule=None, at_most=100)
"""Rows that break a rule of the ledger (of one `schedule`, `since` an instant), at most a hundred
of each: see ``pgcron.check_ledger``. NotFound.
"""

deciding_tzdata: Final = Call[str | None]("deciding_tzdata")
"""The version of tzdata that decides; None: no node has brought any so far."""

verifiable_schedules: Final = Rows("verifiable_schedules", "schedule", "only_utc", "at_most")
"""Valid and paused schedules (id, name, watermark); those that fire next come first."""

_watermark: Final = Rows("watermark_of", "schedule_id").one
_versions: Final = Rows("timings_of_schedule", "schedule_id", "after")
_entries: Final = Rows("entries_of_schedule", "schedule_id", "after", "until", "at_most")
_ranges: Final = Rows("ranges_of_schedule", "schedule_id", "after", "until", "at_most")


async def ledger_of(
    connection: Any, schedule_id: int, after: datetime, *, most: int, **options: Any
) -> LedgerOf | None:
    """What the tzdata of now has decided of a schedule after an instant; None: it was deleted
    meanwhile.

    Call it in a transaction of one snapshot.
    """
    found = await _watermark(connection, schedule_id, **options)
    if found is None:
        return None
    until: datetime = found["watermark"]
    after = max(after, found["rules_since"] or after)
    versions = await _versions(connection, schedule_id, after, **options)
    window = (schedule_id, after, until, most + 1)
    entries = await _entries(connection, *window, **options)
    ranges = await _ranges(connection, *window, **options)
    for rows, key in ((entries, "fire_at"), (ranges, "first_at")):
        if len(rows) > most:
            until = min(until, rows[most - 1][key])
    fires = {row["fire_at"]: row["is_by_hand"] for row in entries}
    return LedgerOf(
        after, until, versions, fires, [(row["first_at"], row["last_at"]) for row in ranges]
    )
