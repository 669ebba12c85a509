"""Calendars, days that schedules share, by themselves and as files say them:
``sql/calendars.sql``. InvalidCalendar for what names no days, or itself.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call
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

apply_calendars: Final = Rows(
    "apply_calendars", "contents", "source", take_over=False, schedules=()
)
"""Creates or changes the calendars of a source, in the caller's transaction and all at once: they
may name one another. ``contents`` is a JSON object of their texts by name, ``schedules`` are those
that are applied next.

Of each the ``name``, the ``change`` (added, changed, unchanged), its text ``before`` and ``after``
(None where there is none), ``source_before``, the owner of the files that defined it, and
``users``, how many schedules use it. Raises Conflict for the calendar of another source, unless
``take_over``; InvalidCalendar for one that contains itself, whatever others it does so by.
"""

prune_calendars: Final = Rows("prune_calendars", "source", "kept")
"""Deletes those that the source owns and that are not kept: rows as those of `apply_calendars`,
whose ``change`` is pruned. Conflict for one in use.
"""

# Each has 64 KiB at most.
calendars_to_export: Final = Rows("calendars_to_export", "names", source=None, at_most=10_000)
"""``name`` and ``content`` of all (`names` None), or of these and those of a source."""
