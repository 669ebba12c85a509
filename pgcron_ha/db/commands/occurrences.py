"""One fire of a schedule, changed by somebody: the statements of ``sql/control.sql`` for it.

As `pgcron_ha.db.commands.functions`: each takes a connection and works in its transaction; instants
are aware.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.asking import row as _row
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

MOST_CHANGED: Final = 100


async def skip_occurrence(
    connection: Any,
    name: str,
    instant: datetime,
    note: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """The fire does not run. NotFound; Conflict when it has begun or is over; InvalidInput."""
    given = {"name": name, "instant": instant, "note": note, "actor": actor}
    await _row(connection, schema, "skip_occurrence", **given)


async def move_occurrence(
    connection: Any,
    name: str,
    instant: datetime,
    moved_to: datetime,
    note: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """The fire is due at another instant to come, before or after. Raises as `skip_occurrence`."""
    given = {"name": name, "instant": instant, "moved_to": moved_to, "note": note, "actor": actor}
    await _row(connection, schema, "move_occurrence", **given)


async def edit_occurrence(
    connection: Any,
    name: str,
    instant: datetime,
    args: str,
    note: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """The fire gets other args (JSON text). Raises as `skip_occurrence`, and TooLarge."""
    given = {"name": name, "instant": instant, "args": args, "note": note, "actor": actor}
    await _row(connection, schema, "edit_occurrence", **given)


async def restore_occurrence(
    connection: Any,
    name: str,
    instant: datetime,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """The fire is as the schedule says. Raises as `skip_occurrence`; NotFound if it was so."""
    await _row(connection, schema, "restore_occurrence", name=name, instant=instant, actor=actor)


async def changed_occurrence(
    connection: Any, schedule_id: int, fire_at: datetime, *, schema: str = DEFAULT_SCHEMA
) -> Row | None:
    """What somebody did to a fire; None: nothing."""
    return await fetch_one(
        connection, "changed_occurrence", schema, schedule_id=schedule_id, fire_at=fire_at
    )


async def changed_occurrences(
    connection: Any, schedule_id: int, *, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """The first `MOST_CHANGED` fires to come that somebody has changed, by their time."""
    return await fetch(
        connection,
        "changed_occurrences",
        schema,
        schedule_id=schedule_id,
        at_most=MOST_CHANGED,
    )
