"""``/storage``: how large the tables are, how fast they grow, and when their partitions go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.queries import storage as ask
from pgcron_ha.db.queries.health import MANY_DEAD_ROWS
from pgcron_ha.model.storage import LOOKED_BACK, Part, TableSize, total_growth
from pgcron_ha.web.address import NoSuch
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
    found, now = snapshot.value, snapshot.now
    rows = [_row(table) for table in found.tables]
    return page_request.page(
        "storage.html",
        snapshot,
        title="Storage",
        rows=rows[:SHOWN],
        small=rows[SHOWN:],
        total=sum(table.total for table in found.tables),
        growth=total_growth(found.tables, now),
        largest=_largest(table.total for table in found.tables),
        holders=[{**holder, "release": ask.release_words(holder)} for holder in found.holders],
        sees_all=found.sees_all,
        days=LOOKED_BACK // _DAY,
    )


async def show_table(page_request: PageRequest) -> Response:
    """One table: its partitions, the newest first."""
    page_request.query()
    name = page_request.segment("name")
    snapshot = await page_request.read("storage", ask.storage, life=LIFE_SECONDS)
    tables = {table.name: table for table in snapshot.value.tables}
    if name not in tables:
        rule = "Partitions are shown on the page of their table."
        raise NoSuch("table", name, rule, page_request.near("storage_table", name, sorted(tables)))
    return page_request.page(
        "storage_table.html",
        snapshot,
        title=name,
        row=_row(tables[name]),
        parts=[_part(part, snapshot.now) for part in reversed(tables[name].parts)],
        largest=_largest(part.total for part in tables[name].parts),
        days=LOOKED_BACK // _DAY,
    )


def _row(table: TableSize) -> dict[str, Any]:
    return {"size": table, "has_dead_rows": any(map(_has_dead_rows, table.parts))}


def _part(part: Part, now: datetime) -> dict[str, Any]:
    """A partition and its state in words: none of a full one, and of what is no partition."""
    is_to_come, state = part.low is not None and part.low > now, ""
    if part.low is None:
        state = "what lies before the first" if part.high is not None else ""
    elif is_to_come:
        state = "to come"
    elif part.high is None or part.high > now:
        state = "is being filled"
    has_dead_rows = _has_dead_rows(part)
    return {"part": part, "state": state, "has_dead_rows": has_dead_rows, "is_to_come": is_to_come}


def _has_dead_rows(part: Part) -> bool:
    """Whether dead rows outnumber the living, and are many."""
    return part.dead > MANY_DEAD_ROWS and part.dead > part.rows


def _largest(totals: Iterable[int]) -> int:
    """For bars: never zero."""
    return max([1, *totals])
