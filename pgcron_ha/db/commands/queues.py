"""What people do to queues and lanes: those of ``sql/functions.sql``.

As `pgcron_ha.db.commands.functions`: each takes a connection and works in its transaction.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgcron_ha.db.driver.asking import row as _row
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA


async def pause_queue(
    connection: Any,
    name: str,
    note: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """Nobody claims from the queue until it is resumed; what runs goes on."""
    await _row(connection, schema, "pause_queue", name=name, note=note, actor=actor)


async def resume_queue(
    connection: Any, name: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> None:
    """The queue is claimed from again; nothing happens to one that was not paused."""
    await _row(connection, schema, "resume_queue", name=name, actor=actor)


async def set_queue(
    connection: Any,
    name: str,
    max_running: int | None,
    *,
    rate: int | None = None,
    per: timedelta | None = None,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """So many of the queue's runs execute at once on all nodes together, and `rate` of them start
    in any span of `per`; None is no limit.
    """
    await _row(
        connection,
        schema,
        "set_queue",
        name=name,
        max_running=max_running,
        rate=rate,
        per=per,
        actor=actor,
    )


async def set_lane(
    connection: Any,
    lane: str,
    slots: int | None,
    *,
    rate: int | None = None,
    per: timedelta | None = None,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """So many runs of the lane execute at once, and `rate` of them start in any span of `per`; None
    is no limit. A name that ends with ``*`` is for all lanes that begin so.
    """
    await _row(
        connection,
        schema,
        "set_lane",
        lane=lane,
        slots=slots,
        rate=rate,
        per=per,
        actor=actor,
    )


async def delete_lane(connection: Any, lane: str, *, schema: str = DEFAULT_SCHEMA) -> None:
    """What was set for this name holds no more."""
    await _row(connection, schema, "delete_lane", lane=lane)
