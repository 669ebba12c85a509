"""Calendars as files say them: ``sql/calendar_files.sql``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.clients import Connection
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load

# As many as one answer holds; each has 64 KiB at most.
MOST_CALENDARS: Final = 10_000


class AppliedCalendar(NamedTuple):
    """What became of a calendar: its text that was and that is, None where there is none."""

    name: str
    change: Literal["added", "changed", "unchanged", "pruned"]
    before: str | None
    after: str | None
    source_before: str | None
    """Whose files defined it."""
    users: int
    """How many schedules use it."""


async def apply_calendars(
    connection: Connection,
    contents: Mapping[str, str],
    source: str,
    *,
    take_over: bool = False,
    schedules: Sequence[str] = (),
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> list[AppliedCalendar]:
    """Make the calendars of a source so, in the caller's transaction and all at once: they may
    name one another. ``schedules`` are those that are applied next.

    Raises Conflict for the calendar of another source, InvalidCalendar for one that contains
    itself, whatever others it does so by.
    """
    with answers():
        rows = await connection.fetch(
            load(schema)["apply_calendars"].sql,
            *(json.dumps(dict(contents)), source, take_over, actor, list(schedules)),
        )
    return [
        AppliedCalendar(
            row["name"],
            row["change"],
            _of(row["previous"], "content"),
            row["content"]["content"],
            _of(row["previous"], "source"),
            row["users"],
        )
        for row in rows
    ]


async def prune_calendars(
    connection: Connection,
    source: str,
    kept: Sequence[str],
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> list[AppliedCalendar]:
    """Delete those that the source owns and that are not kept; Conflict for one in use."""
    with answers():
        rows = await connection.fetch(
            load(schema)["prune_calendars"].sql, source, list(kept), actor
        )
    return [
        AppliedCalendar(row["name"], "pruned", row["previous"]["content"], None, source, 0)
        for row in rows
    ]


async def calendars_to_export(
    connection: Connection,
    names: Sequence[str] | None,
    source: str | None = None,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> dict[str, str]:
    """Contents by name: of all (None), or of these and those of a source."""
    given = None if names is None else list(names)
    rows = await connection.fetch(
        load(schema)["calendars_to_export"].sql, given, source, MOST_CALENDARS
    )
    return {row["name"]: row["content"] for row in rows}


def _of(record: Any, column: str) -> str | None:
    return None if record is None else record[column]
