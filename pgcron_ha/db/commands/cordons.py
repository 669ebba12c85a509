"""Nodes that take nothing new: the statements of ``sql/cordons.sql``.

A node is named by its name (every process of it, those that start later, too) or by the incarnation
of one process. Errors are those of `pgcron_ha.db.commands.functions`: NotFound for one that nobody
knows.
"""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver.asking import value
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA


async def cordon_node(
    connection: Any,
    node: str,
    reason: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """It claims nothing from now on and ends what it holds; how many of its processes live."""
    return int(
        await value(connection, schema, "cordon_node", node=node, reason=reason, actor=actor)
    )


async def uncordon_node(
    connection: Any, node: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> int:
    """It claims again; how many of its processes do. Conflict for a process of a cordoned name."""
    return int(await value(connection, schema, "uncordon_node", node=node, actor=actor))


async def held_by_node(connection: Any, node: str, *, schema: str = DEFAULT_SCHEMA) -> int:
    """How many runs its living processes hold: 0 is drained, once it is cordoned."""
    return int(await value(connection, schema, "held_by_node", node=node))
