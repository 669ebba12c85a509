"""What the pages of nodes read: the statements of ``sql/nodes.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

# A cluster of more nodes than this is looked at by queue or handler.
MOST_NODES: Final = 300
# The dead of a day; a node that dies each minute fills a page, not a screen for ever.
MOST_DEAD: Final = 50
SHOWN_RUNS: Final = 50

nodes: Final = Query("list_nodes", names=3)
"""At most ``limit`` living by name, then dead, newest first (``is_dead`` chooses), that take from
``queue`` and offer ``handler`` (None: any); the dead ``ended_within`` these seconds.

`lease_ttl` is seconds, `runs` what a node holds (at most 1,000), `offers` how many handlers it
offers and `handlers` the first ``names`` of them (0: neither is read); `unresponsive_runs` go on
though asked to stop. `labels` and `health` are JSON text.
"""

node: Final = Query("list_nodes", names=1_000, limit=1).one
"""The one whose ``incarnation``, as text, is this, with all it offers."""
