"""What the demo writes into its database before its nodes start: a calendar, a schedule
that uses it, and one that somebody has paused.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db import calendars, doors
from pgcron_ha.db.clients import Connection

CALENDAR: Final = "holidays"
GREETING: Final = "greet"
PAUSED: Final = "cleanup"
EXAMPLES: Final = (GREETING, PAUSED)
PAUSE_NOTE: Final = "until somebody has looked at the old dumps"

_ACTOR: Final = "demo"
_DAYS: Final = """\
yearly 01-01 # New Year's Day
yearly easter-2 # Good Friday
yearly easter+1 # Easter Monday
yearly 05-01 # Labour Day
yearly 12-25..12-26 # Christmas
"""


async def put_examples(connection: Connection, schema: str) -> None:
    """All of them, as they were if they are there already."""
    await calendars.put_calendar(connection, CALENDAR, _DAYS, actor=_ACTOR, schema=schema)
    spec, args = f"every 5s\nnot in {CALENDAR}", '{"name": "all who work"}'
    await doors.put_schedule(
        connection, GREETING, spec, "py:hello", args=args, actor=_ACTOR, schema=schema
    )
    args = '{"name": "old dumps"}'
    await doors.put_schedule(
        connection, PAUSED, "0 4 * * *", "py:hello", args=args, actor=_ACTOR, schema=schema
    )
    await doors.pause_schedule(connection, PAUSED, PAUSE_NOTE, actor=_ACTOR, schema=schema)
