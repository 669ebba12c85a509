"""Nodes that take nothing new: the statements of ``sql/nodes.sql``.

A node is named by its name (every process of it, those that start later, too) or by the incarnation
of one process. NotFound for one that nobody knows.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call

cordon_node: Final = Call[int]("cordon_node", "node", reason=None)
"""It claims nothing from now on and ends what it holds; how many of its processes live."""

uncordon_node: Final = Call[int]("uncordon_node", "node")
"""It claims again; how many of its processes do. Conflict for a process of a cordoned name."""

held_by_node: Final = Call[int]("held_by_node", "node")
"""How many runs its living processes hold: 0 is drained, once it is cordoned."""
