"""What the pages of calendars ask: statements of ``sql/pages_calendars.sql``."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

PAGE_ROWS: Final = 200
PAGE_USERS: Final = 50


class Found(NamedTuple):
    """A calendar: its row, schedules that use it, calendars that name it."""

    row: Row
    users: list[Row]
    parents: list[Row]


async def calendars(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """The first `PAGE_ROWS` by name, without their contents."""
    return await fetch(connection, "page_calendars", schema, limit=PAGE_ROWS)


async def one(connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA) -> Found | None:
    """One of them, or None; its ``contents`` are JSON text, with those of its parts."""
    row = await fetch_one(connection, "page_calendar", schema, name=name)
    if row is None:
        return None
    asked: dict[str, Any] = {"name": name, "limit": PAGE_USERS}
    return Found(
        row,
        await fetch(connection, "page_calendar_users", schema, **asked),
        await fetch(connection, "page_calendar_parents", schema, **asked),
    )
