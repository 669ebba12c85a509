"""What proves the ledger: rows that contradict each other, and what to compare with the specs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.rows import Row, fetch_rows

MOST_BROKEN: Final = 100
"""Of each rule."""

MOST_SCHEDULES: Final = 1000


@dataclass(frozen=True)
class LedgerOf:
    """A schedule's ledger after an instant, and its versions that held then."""

    after: datetime
    versions: list[Row]
    entries: list[Row]
    ranges: list[Row]
    watermark: datetime
    complete_until: datetime
    """Later rows were too many to be read."""
    has_ended: bool
    """By its cursor it never fires again, and no run is on its way back."""


async def broken_rows(
    connection: Any,
    name: str | None = None,
    *,
    since: datetime | None = None,
    at_most: int = MOST_BROKEN,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Rows that break a rule of the ledger: see ``pgcron.check_ledger``. NotFound."""
    return await fetch_rows(
        connection, "check_ledger", schema, schedule=name, since=since, at_most=at_most
    )


async def deciding_tzdata(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> str | None:
    """The version of tzdata that decides; None: no node has brought any so far."""
    found = await fetch_rows(connection, "deciding_tzdata", schema)
    tzdata: str | None = found[0]["tzdata"]
    return tzdata


async def verifiable_schedules(
    connection: Any,
    name: str | None,
    *,
    only_utc: bool,
    at_most: int,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Valid schedules (id, name, watermark); those that fire next come first."""
    given = {"schedule": name, "only_utc": only_utc, "at_most": at_most}
    return await fetch_rows(connection, "verifiable_schedules", schema, **given)


async def ledger_of(
    connection: Any,
    schedule_id: int,
    after: datetime,
    *,
    most: int,
    schema: str = DEFAULT_SCHEMA,
) -> LedgerOf | None:
    """What the tzdata of now has decided of a schedule after an instant; None: it was deleted
    meanwhile.

    Call it in a transaction of one snapshot.
    """
    found = await fetch_rows(connection, "watermark_of", schema, schedule_id=schedule_id)
    if not found:
        return None
    watermark: datetime = found[0]["watermark"]
    after = max(after, found[0]["rules_since"] or after)
    given = {"schedule_id": schedule_id, "after": after}
    versions = await fetch_rows(connection, "timings_of_schedule", schema, **given)
    window = {**given, "until": watermark, "at_most": most + 1}
    entries = await fetch_rows(connection, "entries_of_schedule", schema, **window)
    ranges = await fetch_rows(connection, "ranges_of_schedule", schema, **window)
    complete = watermark
    for rows, key in ((entries, "fire_at"), (ranges, "first_at")):
        if len(rows) > most:
            complete = min(complete, rows[most - 1][key])
    return LedgerOf(after, versions, entries, ranges, watermark, complete, found[0]["has_ended"])
