"""Backfills as people ask for them and look at them: ``sql/backfills.sql``. Errors are those of
`pgcron_ha.errors`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.asking import value as _value
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, Row, fetch_rows
from pgcron_ha.errors import NotFound

DIRECTIONS: Final = ("forward", "backward")
IF_RAN: Final = ("skip", "failed", "all")
STATES: Final = ("open", "paused", "stopping", "stopped", "done")


async def backfill(
    connection: Any,
    schedule: str,
    since: datetime,
    until: datetime | None = None,
    *,
    direction: str = "forward",
    parallelism: int = 1,
    overlap: str | None = None,
    if_ran: str = "skip",
    args: str | None = None,
    note: str | None = None,
    planned: int | None = None,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """The id of a backfill of the schedule's instants from `since` on and before `until` (now).

    `overlap` and `args` None mean the schedule's; `planned` is how many instants there are, if it
    is known. InvalidInput, TooLarge, NotFound; Conflict with one that is under way.
    """
    return int(
        await _value(
            connection,
            schema,
            "backfill",
            schedule=schedule,
            since=since,
            until=until,
            direction=direction,
            parallelism=parallelism,
            overlap=overlap,
            if_ran=if_ran,
            args=args,
            note=note,
            planned=planned,
            actor=actor,
        )
    )


async def pause_backfill(
    connection: Any, backfill_id: int, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> None:
    """Makes no more runs until it is resumed. NotFound, Conflict when it is over."""
    await _value(connection, schema, "pause_backfill", backfill=backfill_id, actor=actor)


async def resume_backfill(
    connection: Any, backfill_id: int, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> None:
    """Goes on. NotFound, Conflict when it is over."""
    await _value(connection, schema, "resume_backfill", backfill=backfill_id, actor=actor)


async def stop_backfill(
    connection: Any,
    backfill_id: int,
    reason: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """Makes no more runs and cancels those that wait: how many. NotFound, Conflict when over."""
    values = {"backfill": backfill_id, "reason": reason, "actor": actor}
    return int(await _value(connection, schema, "stop_backfill", **values))


async def backfills(
    connection: asyncpg.Connection,
    *,
    schedule_id: int | None = None,
    state: str | None = None,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Backfills with how far they are, the newest first."""
    return await fetch_rows(
        connection, "list_backfills", schema, schedule_id=schedule_id, state=state, limit=limit
    )


async def one_backfill(
    connection: asyncpg.Connection, backfill_id: int, *, schema: str = DEFAULT_SCHEMA
) -> Row:
    """One of them. Raises NotFound."""
    found = await fetch_rows(connection, "one_backfill", schema, backfill=backfill_id)
    if not found:
        raise NotFound(
            f"backfill {backfill_id} does not exist",
            "It was never asked for, or was forgotten with the ledger of its time.",
            "`pgcron-ha backfills list` lists them.",
        )
    return found[0]


async def runs_of_backfill(
    connection: asyncpg.Connection,
    backfill_id: int,
    *,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Its open runs, then the last ones that did not succeed; `state` is theirs or the outcome."""
    return await fetch_rows(
        connection, "runs_of_backfill", schema, backfill=backfill_id, limit=limit
    )
