"""``/storage``: how large the tables are, and how fast they grow."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.db.queries import storage as ask
from pgcron_ha.db.queries.health import role, snapshot_holders
from pgcron_ha.web.page_request import PageRequest, together

# Sizes change slowly, and each costs the server some calls of its file system.
LIFE_SECONDS: Final = 20.0
# The others are small as a rule, and are folded.
SHOWN: Final = 12
_ASKED: Final = together(ask.tables, snapshot_holders, role)


async def show_storage(page_request: PageRequest) -> Response:
    """All tables, the largest first, and who keeps dead rows in them."""
    page_request.query()
    snapshot = await page_request.read("storage", _ASKED, life=LIFE_SECONDS)
    tables, holders, reader = snapshot.value
    return page_request.page(
        "storage.html",
        snapshot,
        title="Storage",
        rows=tables[:SHOWN],
        small=tables[SHOWN:],
        total=sum(table["total"] for table in tables),
        growth=sum(table["a_day"] or 0 for table in tables),
        largest=max([1, *(table["total"] for table in tables)]),  # for bars: never zero
        holders=holders,
        sees_all=reader["sees_all"],
    )
