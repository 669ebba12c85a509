"""``/storage``: how large the tables are, and how fast they grow."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from pgcron_ha.db.queries import storage as ask
from pgcron_ha.db.queries.health import MANY_DEAD_ROWS
from pgcron_ha.model.storage import LOOKED_BACK, Part, total_growth
from pgcron_ha.web.page_request import PageRequest

# Sizes change slowly, and each costs the server some calls of its file system.
LIFE_SECONDS: Final = 20.0
# The others are small as a rule, and are folded.
SHOWN: Final = 12
_DAY: Final = timedelta(days=1)


async def show_storage(page_request: PageRequest) -> Response:
    """All tables, the largest first, and who keeps dead rows in them."""
    page_request.query()
    snapshot = await page_request.read("storage", ask.storage, life=LIFE_SECONDS)
    found = snapshot.value
    rows = [
        {"size": table, "has_dead_rows": any(map(_has_dead_rows, table.parts))}
        for table in found.tables
    ]
    return page_request.page(
        "storage.html",
        snapshot,
        title="Storage",
        rows=rows[:SHOWN],
        small=rows[SHOWN:],
        total=sum(table.total for table in found.tables),
        growth=total_growth(found.tables, snapshot.now),
        largest=max([1, *(table.total for table in found.tables)]),  # for bars: never zero
        holders=[{**holder, "release": ask.release_words(holder)} for holder in found.holders],
        sees_all=found.sees_all,
        days=LOOKED_BACK // _DAY,
    )


def _has_dead_rows(part: Part) -> bool:
    """Whether dead rows outnumber the living, and are many."""
    return part.dead > MANY_DEAD_ROWS and part.dead > part.rows
