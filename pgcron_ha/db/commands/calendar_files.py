"""Calendars as files say them: ``sql/calendars.sql``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.db.driver.clients import Connection
from pgcron_ha.db.queries.rows import Rows

# The most that one answer holds; each has 64 KiB at most.
MOST_CALENDARS: Final = 10_000

_apply: Final = Rows("apply_calendars", "contents", "source", take_over=False, schedules=())
_prune: Final = Rows("prune_calendars", "source", "kept")
_export: Final = Rows("calendars_to_export", "names", source=None, at_most=MOST_CALENDARS)


class AppliedCalendar(NamedTuple):
    """The change of a calendar: its text before and after, None where there is none."""

    name: str
    change: Literal["added", "changed", "unchanged", "pruned"]
    before: str | None
    after: str | None
    source_before: str | None
    """The owner of the files that defined it."""
    users: int
    """How many schedules use it."""


async def apply_calendars(
    connection: Connection, contents: Mapping[str, str], source: str, **options: Any
) -> list[AppliedCalendar]:
    """Make the calendars of a source so, in the caller's transaction and all at once: they may
    name one another. ``schedules`` are those that are applied next.

    Raises Conflict for the calendar of another source, unless ``take_over``; InvalidCalendar for
    one that contains itself, whatever others it does so by.
    """
    rows = await _apply(connection, json.dumps(dict(contents)), source, **options)
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
    connection: Connection, source: str, kept: Sequence[str], **options: Any
) -> list[AppliedCalendar]:
    """Delete those that the source owns and that are not kept; Conflict for one in use."""
    rows = await _prune(connection, source, kept, **options)
    return [
        AppliedCalendar(row["name"], "pruned", row["previous"]["content"], None, source, 0)
        for row in rows
    ]


async def calendars_to_export(
    connection: Connection, names: Sequence[str] | None, source: str | None = None, **options: Any
) -> dict[str, str]:
    """Contents by name: of all (None), or of these and those of a source."""
    rows = await _export(connection, names, source, **options)
    return {row["name"]: row["content"] for row in rows}


def _of(record: Any, column: str) -> str | None:
    return None if record is None else record[column]
