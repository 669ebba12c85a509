"""Calendars, days that schedules share: ``sql/calendars.sql``. Errors are those of
`pgcron_ha.errors`: InvalidCalendar for what names no days, or itself.
"""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver import asking
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import Row, fetch_rows
from pgcron_ha.errors import NotFound


async def put_calendar(
    connection: Any,
    name: str,
    content: str,
    *,
    actor: str | None = None,
    interface: str | None = None,
    take_over: bool = False,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """Makes or changes it, and with it the future runs of the schedules that use it; its id.

    Whose files define it is warned, unless it is taken over: then no file owns it any more.
    """
    return int(
        await asking.value(
            connection,
            schema,
            "put_calendar",
            name=name,
            content=content,
            actor=actor,
            interface=interface,
            take_over=take_over,
        )
    )


async def delete_calendar(
    connection: Any, name: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> None:
    """NotFound; Conflict for one that schedules or calendars use, who are named."""
    await asking.value(connection, schema, "delete_calendar", name=name, actor=actor)


async def calendars_of(connection: Any, spec: str, *, schema: str = DEFAULT_SCHEMA) -> str | None:
    """JSON: the contents of the calendars that a spec needs, by name; None when it names none."""
    found: str | None = await asking.value(connection, schema, "calendars_of", spec=spec)
    return found


async def calendar(connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """One of them, and ``parts``: JSON, its content and those of the calendars that it names.
    NotFound.
    """
    rows = await fetch_rows(connection, "one_calendar", schema, name=name)
    if not rows:
        raise NotFound(
            f"calendar '{name[:200]}' does not exist",
            "A calendar is named exactly as it was made.",
            "`pgcron-ha calendars list` lists them.",
        )
    return rows[0]
