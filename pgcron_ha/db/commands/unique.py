"""The door for a run that is to be the only one of its kind."""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver.foreign import fetch_row
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load


async def enqueue_request(
    connection: Any, options: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> int:
    """The id of the run that a JSON object asks for, one of those that `enqueue_many` takes."""
    values = {"options": options, "actor": actor}
    found: int = (await fetch_row(connection, load(schema)["enqueue_request"], values))[0]
    return found
