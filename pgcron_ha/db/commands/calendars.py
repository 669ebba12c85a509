"""Calendars, days that schedules share: ``sql/calendars.sql``. InvalidCalendar for what names no
days, or itself.
"""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

put_calendar: Final = Call[int]("put_calendar", "name", "content", take_over=False)
"""Makes or changes it, and with it the future runs of the schedules that use it; its id.

Warns if files define it, unless it is taken over: then no file owns it any more.
"""

delete_calendar: Final = Call[None]("delete_calendar", "name")
"""NotFound; Conflict, which names them, if schedules or calendars use it."""

calendars_of: Final = Call[str | None]("calendars_of", "spec")
"""JSON: the contents of the calendars that a spec needs, by name; None when it names none."""

calendars: Final = Rows("list_calendars", limit=DEFAULT_LIMIT)
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

_users_of_calendar: Final = Rows("users_of_calendar", "name", limit=DEFAULT_LIMIT)


async def users_of_calendar(connection: Any, name: str, **options: Any) -> list[str]:
    """The schedules that use it, directly or within another, by name."""
    return [row["name"] for row in await _users_of_calendar(connection, name, **options)]
