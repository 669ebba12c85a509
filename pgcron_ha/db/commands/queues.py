"""What people do to queues and lanes: those of ``sql/functions.sql``.

As `pgcron_ha.db.commands.functions`: each takes a connection and works in its transaction.
"""

from __future__ import annotations

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
