"""Nodes that take nothing new: the statements of ``sql/cordons.sql``.

A node is named by its name (every process of it, those that start later, too) or by the incarnation
of one process. Errors are those of `pgcron_ha.db.commands.functions`: NotFound for one that nobody
knows.
"""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver.foreign import fetch_row
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load


async def cordon_node(
    connection: Any,
    node: str,
    reason: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """It claims nothing from now on and ends what it holds; how many of its processes live."""
    return await _number(connection, schema, "cordon_node", node=node, reason=reason, actor=actor)


async def uncordon_node(
    connection: Any, node: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> int:
    """It claims again; how many of its processes do. Conflict for a process of a cordoned name."""
    return await _number(connection, schema, "uncordon_node", node=node, actor=actor)


async def held_by_node(connection: Any, node: str, *, schema: str = DEFAULT_SCHEMA) -> int:
    """How many runs its living processes hold: 0 is drained, once it is cordoned."""
    return await _number(connection, schema, "held_by_node", node=node)


async def _number(connection: Any, schema: str, name: str, /, **values: Any) -> int:
    row = await fetch_row(connection, load(schema)[name], values)
    number: int = row[0]
    return number
