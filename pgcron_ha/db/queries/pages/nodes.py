"""What the pages of nodes ask: the statements of ``sql/pages_nodes.sql``."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one
from pgcron_ha.db.queries.unresponsive_runs import UNRESPONSIVE

# A cluster of more nodes than this is looked at by queue or handler.
MOST_NODES: Final = 300
# The dead of a day; a node that dies each minute fills a page, not a screen for ever.
MOST_DEAD: Final = 50
# Handlers that a line of the list names; the page of a node names more.
SHOWN_HANDLERS: Final = 3
ALL_HANDLERS: Final = 1_000
COUNTED_RUNS: Final = 1_000
SHOWN_RUNS: Final = 50
NEAR: Final = 8


async def nodes(
    connection: Any,
    *,
    is_dead: bool,
    queue: str | None = None,
    handler: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The living by name, or the dead, newest first; at most `MOST_NODES` or `MOST_DEAD`.

    `lease_left` (below zero: it ran out) and `lease_ttl` are seconds, `runs` what a node holds (at
    most `COUNTED_RUNS`), `handlers` how many it offers and `handler_names` the first of them;
    `unresponsive_runs` go on though told to stop.
    `queue` and `handler` are such that a node takes from and offers.
    """
    return await fetch(
        connection,
        "page_nodes",
        schema,
        is_dead=is_dead,
        queue=queue,
        handler=handler,
        most=COUNTED_RUNS,
        names=SHOWN_HANDLERS,
        limit=MOST_DEAD if is_dead else MOST_NODES,
        **UNRESPONSIVE,
    )


async def node(connection: Any, incarnation: UUID, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """One incarnation with all it offers; None: there was none, or it is forgotten."""
    return await fetch_one(
        connection, "page_node", schema, incarnation=incarnation, names=ALL_HANDLERS, **UNRESPONSIVE
    )


async def node_runs(
    connection: Any, incarnation: UUID, *, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """What the node executes or holds ahead (`started_at` None), the longest first."""
    return await fetch(
        connection,
        "page_node_runs",
        schema,
        incarnation=incarnation,
        look=COUNTED_RUNS,
        limit=SHOWN_RUNS,
    )


async def near_nodes(connection: Any, text: str, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Nodes that may have been meant by a name or the beginning of an incarnation."""
    return await fetch(connection, "page_node_names", schema, text=text, limit=NEAR)
