"""``/schedules``: which are unhealthy, and when is the next fire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.web.address import choice
from pgcron_ha.web.contexts import FilterChip, ScheduleLine, SchedulesView
from pgcron_ha.web.formats import expected_about, plain
from pgcron_ha.web.health import judge
from pgcron_ha.web.page_request import PageRequest
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
_FILTERS: Final[tuple[str, ...]] = ("text", "health", "queue", "state")


@dataclass(frozen=True)
class Listing:
    """What was read: one row more than a page tells that there is a next one."""

    rows: list[dict[str, Any]]
    queues: list[str]
    total: int


async def show_schedules(page_request: PageRequest) -> Response:
    """The list; ``?text=``, ``health``, ``queue``, ``state`` filter it, ``after`` is the page."""
    given = page_request.query(*_FILTERS, "after")
    choice(given.get("health"), HEALTH_FILTERS, "health word")
    choice(given.get("state"), STATE_FILTERS, "state")
    snapshot = await page_request.read(
        ("schedules", *sorted(given.items())),
        lambda connection: read_listing(connection, page_request.schema, given),
    )
    if (drawn := page_request.drawn(snapshot)) is not None:
        return drawn
    _require_known_queue(given.get("queue"), snapshot.value)
    view = _view(page_request, snapshot.value, given, snapshot.now)
    return page_request.page(
        "schedules.html", view, snapshot, title="Schedules", section="schedules"
    )


def _require_known_queue(queue: str | None, listing: Listing) -> None:
    """A queue that was emptied of schedules while a page was open is unknown, too."""
    if queue is not None and not listing.rows:
        choice(queue, tuple(listing.queues), "queue of a schedule")


async def read_listing(connection: Connection, schema: str, given: dict[str, str]) -> Listing:
    """One page of schedules, and what to choose from."""
    cluster = await ask_overview.cluster(connection, schema=schema)
    ids = await _candidates(connection, schema, given.get("health"))
    enabled = {"on": True, "paused": False}.get(given.get("state", ""))
    rows = await ask.schedules(
        connection,
        ids=ids,
        text=given.get("text"),
        queue=given.get("queue"),
        enabled=False if given.get("health") == "paused" else enabled,
        after=given.get("after"),
        limit=ask.PAGE_ROWS + 1 if ids is None else ask.MOST_IDS,
        schema=schema,
    )
    queues = await ask.queue_names(connection, schema=schema)
    return Listing(rows, queues, cluster["schedules"])


async def _candidates(connection: Connection, schema: str, health: str | None) -> list[int] | None:
    """Ids among which all schedules of that health are; None: any schedule may be."""
    if health in ("failing", "invalid"):
        invalid = [
            row["schedule_id"]
            for row in await ask_overview.invalid_schedules(connection, schema=schema)
        ]
        if health == "invalid":
            return invalid
        running = await ask_overview.running(connection, schema=schema)
        failing = await ask_overview.failing_candidates(connection, schema=schema)
        return [*failing, *invalid, *(row["schedule_id"] for row in running if row["schedule_id"])]
    if health == "late":
        due = await ask_overview.due(connection, schema=schema)
        parked = await ask_overview.parked_schedules(connection, schema=schema)
        return [*parked, *(row["schedule_id"] for row in due if row["schedule_id"])]
    if health == "new":
        return await ask.new_schedules(connection, schema=schema)
    return None


def _view(
    page_request: PageRequest, listing: Listing, given: dict[str, str], now: datetime
) -> SchedulesView:
    lines = [_line(page_request, row, now) for row in listing.rows]
    wanted = _MATCHES.get(given.get("health", ""))
    if wanted is not None:
        lines = [line for line in lines if line.health.word in wanted]
    has_more = len(lines) > ask.PAGE_ROWS
    lines = lines[: ask.PAGE_ROWS]
    filters = {name: given[name] for name in _FILTERS if name in given}
    after = {**filters, "after": lines[-1].name} if has_more else None
    return SchedulesView(
        rows=tuple(lines),
        filters={name: given.get(name, "") for name in _FILTERS},
        chips=tuple(_chips(page_request, filters)),
        queues=listing.queues,
        health_words=HEALTH_FILTERS,
        total=listing.total,
        next_href=page_request.link("schedules", after) if after else None,
        is_first_page="after" not in given,
    )


def _chips(page_request: PageRequest, filters: dict[str, str]) -> list[FilterChip]:
    return [
        FilterChip(
            f"{name}: {plain(value)}",
            page_request.link(
                "schedules", {key: other for key, other in filters.items() if key != name}
            ),
        )
        for name, value in filters.items()
    ]


def _line(page_request: PageRequest, row: dict[str, Any], now: datetime) -> ScheduleLine:
    has_run = bool(row["outcomes"])
    return ScheduleLine(
        name=row["name"],
        health=judge(row, now),
        spec=row["spec"],
        timezone=row["timezone"],
        handler=row["handler"],
        queue=row["queue"],
        enabled=row["enabled"],
        next_fire=row["next_fire"],
        last_outcome=row["outcomes"][0] if has_run else None,
        last_finished_at=row["finished"][0] if has_run else None,
        last_seconds=row["durations"][0] if has_run else None,
        running=row["running_runs"],
        overruns=expected_about(row["overrun_expected"]),
        spark=spark(
            row["ids"], row["outcomes"], row["durations"], row["finished"], page_request.zone
        )
        if has_run
        else (),
    )
