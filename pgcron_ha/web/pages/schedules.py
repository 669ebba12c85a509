"""``/schedules``: which are unhealthy, and when is the next fire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.db.queries.rows import Query, Row
from pgcron_ha.web.address import choice
from pgcron_ha.web.formats import expected_about
from pgcron_ha.web.health import judge
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.plots import spark

# Words that can be searched for: the index has to know where such schedules are.
HEALTH_FILTERS: Final[tuple[str, ...]] = ("failing", "late", "paused", "new", "invalid")
STATE_FILTERS: Final[tuple[str, ...]] = ("on", "paused")
_MATCHES: Final[dict[str, frozenset[str]]] = {
    "failing": frozenset({"failing", "stuck", "invalid"}),
    "late": frozenset({"late", "stale"}),
    "paused": frozenset({"paused"}),
    "new": frozenset({"new"}),
    "invalid": frozenset({"invalid"}),
}
_CANDIDATES: Final[dict[str, tuple[Query, ...]]] = {
    "failing": (
        ask_overview.failing_candidates,
        ask_overview.invalid_schedules,
        ask_overview.running,
    ),
    "late": (ask_overview.blocked_schedules, ask_overview.due),
    "new": (ask.new_schedules,),
    "invalid": (ask_overview.invalid_schedules,),
}
_CHOICES: Final = together(ask.queue_names, ask.labels, ask_overview.cluster)
_FILTERS: Final[tuple[str, ...]] = ("text", "health", "queue", "state", "tag", "owner")


async def show_schedules(page_request: PageRequest) -> Response:
    """The list; ``?text=``, ``health``, ``queue``, ``state``, ``tag``, ``owner`` filter it;
    ``after`` is the page.
    """
    given = page_request.query(*_FILTERS, "after")
    choice(given.get("health"), HEALTH_FILTERS, "health word")
    choice(given.get("state"), STATE_FILTERS, "state")
    snapshot = await page_request.read("schedules", _read_listing, given)
    rows, queues, labels, cluster = snapshot.value
    if not rows:  # a queue that lost its schedules while a page was open is unknown, too
        choice(given.get("queue"), tuple(queues), "queue of a schedule")
    lines = [_line(page_request, row, snapshot.now) for row in rows]
    wanted = _MATCHES.get(given.get("health", ""))
    if wanted is not None:
        lines = [line for line in lines if line["health"].word in wanted]
    has_more = len(lines) > ask.PAGE_ROWS
    lines = lines[: ask.PAGE_ROWS]
    filters = {name: given[name] for name in _FILTERS if name in given}
    after = {**filters, "after": lines[-1]["name"]} if has_more else None
    return page_request.page(
        "schedules.html",
        snapshot,
        title="Schedules",
        rows=lines,
        filters={name: given.get(name, "") for name in _FILTERS},
        chips=page_request.chips("schedules", filters),
        queues=queues,
        labels=labels,
        health_words=HEALTH_FILTERS,
        total=cluster["schedules"],  # whatever the filters
        next_href=page_request.link("schedules", after) if after else None,
        first_href=page_request.link("schedules", filters) if "after" in given else None,
    )


async def _read_listing(
    connection: Connection, given: dict[str, str], *, schema: str
) -> tuple[list[Row], list[str], Row, Row]:
    """One page of schedules (a row more if there is a next one), queues and labels to choose from,
    and how many there are.
    """
    ids = await _candidates(connection, schema, given.get("health"))
    enabled = {"on": True, "paused": False}.get(given.get("state", ""))
    rows = await ask.schedules(
        connection,
        ids=ids,
        text=given.get("text"),
        queue=given.get("queue"),
        owner=given.get("owner"),
        tags=[given["tag"]] if "tag" in given else None,
        enabled=False if given.get("health") == "paused" else enabled,
        after=given.get("after"),
        limit=ask.PAGE_ROWS + 1 if ids is None else ask.MOST_IDS,
        schema=schema,
    )
    queues, labels, cluster = await _CHOICES(connection, schema=schema)
    return rows, queues, labels, cluster


async def _candidates(connection: Connection, schema: str, health: str | None) -> list[int] | None:
    """Ids among which all schedules of that health are; None: any schedule may be."""
    asked = _CANDIDATES.get(health or "")
    if asked is None:
        return None
    rows = [row for query in asked for row in await query(connection, schema=schema)]
    return [row["schedule_id"] for row in rows if row["schedule_id"] is not None]


def _line(page_request: PageRequest, row: Row, now: datetime) -> dict[str, Any]:
    """The row with its health, its trend, and what a run that ``overruns`` was expected to take."""
    trend = spark(row, page_request.zone) if row["outcomes"] else ()
    overruns, is_off = expected_about(row["overrun_expected"]), not row["enabled"]
    more = {"health": judge(row, now), "overruns": overruns, "spark": trend, "is_off": is_off}
    return {**row, **more}
