"""What the pages of calendars ask: statements of ``sql/calendars.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

PAGE_ROWS: Final = 200
PAGE_USERS: Final = 50

calendars: Final = Query("page_calendars", limit=PAGE_ROWS)
"""The first `PAGE_ROWS` by name, without their contents."""

calendar: Final = Query("one_calendar").one
"""The one called ``name``; `parts`: JSON text, its content and that of the calendars it names."""

users: Final = Query("users_of_calendar", limit=PAGE_USERS)
"""Schedules that use it."""

parents: Final = Query("page_calendar_parents", limit=PAGE_USERS)
"""Calendars that name it."""
