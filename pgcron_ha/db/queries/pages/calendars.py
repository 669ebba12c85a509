"""What the pages of calendars ask: statements of ``sql/calendars.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

PAGE_ROWS: Final = 200
PAGE_USERS: Final = 50

calendars: Final = Query("page_calendars", limit=PAGE_ROWS)
"""The first `PAGE_ROWS` by name, without their contents."""

calendar: Final = Query("page_calendar").one
"""The one called ``name``; its `contents` are JSON text, with those of its parts."""

users: Final = Query("page_calendar_users", limit=PAGE_USERS)
"""Schedules that use it."""

parents: Final = Query("page_calendar_parents", limit=PAGE_USERS)
"""Calendars that name it."""
