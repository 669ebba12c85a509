"""Calendars, days that schedules share, by themselves and as files say them:
``sql/calendars.sql``. InvalidCalendar for what names no days, or itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, UNCUT
from pgcron_ha.db.queries.rows import Rows

put_calendar: Final = Call[int]("put_calendar", "calendar", "content", take_over=False)
"""Makes or changes it, and with it the future runs of the schedules that use it; its id.

Warns if files define it, unless it is taken over: then no file owns it any more.
"""

delete_calendar: Final = Call[None]("delete_calendar", "calendar")
"""NotFound; Conflict, which names them, if schedules or calendars use it."""

calendars_of: Final = Call[str | None]("calendars_of", "spec")
"""JSON: the contents of the calendars that a spec needs, by name; None when it names none."""

calendars: Final = Rows("list_calendars", most=UNCUT, limit=DEFAULT_LIMIT)
"""``name``, ``schedules`` (how many use it), ``version``, ``updated_at``, ``updated_by``,
``source`` (the owner of the files that define it) and ``content``, by name.
"""

calendar: Final = Rows("one_calendar", "name").existing(
    "calendar '{:.200}' does not exist",
    "A calendar is named exactly as it was made.",
    "`pgcron-ha calendars list` lists them.",
)
"""One of them, and ``parts``: JSON, its content and those of the calendars that it names.
NotFound.
"""

users_of_calendar: Final = Rows("users_of_calendar", "name", limit=DEFAULT_LIMIT).names
"""The schedules that use it, directly or within another, by name."""

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
    """Create or change the calendars of a source, in the caller's transaction and all at once:
    they may name one another. ``schedules`` are those that are applied next.

    Raises Conflict for the calendar of another source, unless ``take_over``; InvalidCalendar for
    one that contains itself, whatever others it does so by.
    """
    rows = await _apply(connection, json.dumps(dict(contents)), source, **options)
    return [AppliedCalendar(**row) for row in rows]


async def prune_calendars(
    connection: Connection, source: str, kept: Sequence[str], **options: Any
) -> list[AppliedCalendar]:
    """Delete those that the source owns and that are not kept; Conflict for one in use."""
    return [AppliedCalendar(**row) for row in await _prune(connection, source, kept, **options)]


async def calendars_to_export(
    connection: Connection, names: Sequence[str] | None, source: str | None = None, **options: Any
) -> dict[str, str]:
    """Contents by name: of all (None), or of these and those of a source."""
    rows = await _export(connection, names, source, **options)
    return {row["name"]: row["content"] for row in rows}
