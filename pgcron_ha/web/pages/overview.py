"""``/``: is anything wrong, what, and what was and will be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from starlette.responses import Response

from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.blocking import blocking_sessions
from pgcron_ha.db.queries.node_health import read_health
from pgcron_ha.db.queries.pages import breakers as ask_breakers
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.schedule_spec import spec_of
from pgcron_ha.web.address import choice
from pgcron_ha.web.contexts import NodeLine, OverviewView, QueueLine
from pgcron_ha.web.health import Health, judge
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.attention import causes, shortlist
from pgcron_ha.web.pages.facts import Facts
from pgcron_ha.web.pages.tiles import tiles
from pgcron_ha.web.plots import Timeline, distance, timeline

# Two thirds of the axis are past.
WINDOWS: Final[dict[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
DEFAULT_WINDOW: Final = "24h"
# Chosen while all there is to see fits in it, so that the first minutes are more than a stroke.
FIRST_WINDOW: Final = "1h"
LANES: Final = 12
_ATTENTION_ROWS: Final = 20
# With ?attention=all: as long as a page may be that somebody reads.
_ALL_ATTENTION_ROWS: Final = 500
ALL: Final = "all"
_QUEUES: Final = 8
_NODES: Final = 8

_Judged: TypeAlias = list[tuple[dict[str, Any], Health]]


async def show_overview(page_request: PageRequest) -> Response:
    """The page; ``?window=`` is how much time is shown, ``?attention=all`` lists every cause."""
    given = page_request.query("window", "attention")
    chosen = choice(given.get("window"), tuple(WINDOWS), "window")
    window = chosen or DEFAULT_WINDOW
    is_all = choice(given.get("attention"), (ALL,), "number of causes") == ALL
    length = WINDOWS[window]
    snapshot = await page_request.read(
        ("overview", window), lambda connection: read_facts(connection, page_request.schema, length)
    )
    if (drawn := page_request.drawn(snapshot)) is not None:
        return drawn
    if chosen is None and _is_young(snapshot.value, snapshot.now):
        window = FIRST_WINDOW
    view = _view(page_request, snapshot.value, snapshot.now, window, is_all)
    title = f"({view.problems}) Overview" if view.problems else "Overview"
    return page_request.page("overview.html", view, snapshot, title=title, section="overview")


async def read_facts(connection: Connection, schema: str, length: timedelta) -> Facts:
    """Everything the page shows, in one read-only transaction."""
    cluster = await ask.cluster(connection, schema=schema)
    due = await ask.due(connection, schema=schema)
    running = await ask.running(connection, schema=schema)
    invalid = await ask.invalid_schedules(connection, schema=schema)
    candidates = [
        *await ask.failing_candidates(connection, schema=schema),
        *(row["schedule_id"] for row in due if row["schedule_id"] is not None),
        *(row["schedule_id"] for row in running if row["schedule_id"] is not None),
        *(row["schedule_id"] for row in invalid),
        *await ask_schedules.next_schedules(connection, LANES, schema=schema),
    ]
    ids = list(dict.fromkeys(candidates))[: ask_schedules.MOST_IDS]
    schedules = await ask_schedules.schedules(connection, ids=ids, limit=len(ids), schema=schema)
    judged = [(row, judge(row, cluster["now"])) for row in schedules]
    chosen = [row["id"] for row, _ in _for_lanes(judged, cluster["now"])]
    since = cluster["now"] - length * 2 / 3
    return Facts(
        cluster=cluster,
        nodes=await ask.living_nodes(connection, schema=schema),
        due=due,
        parked=await ask.parked(connection, schema=schema),
        breakers=await ask_breakers.open_breakers(connection, schema=schema),
        broken=await ask_breakers.broken(connection, schema=schema),
        running=running,
        recent=await ask.recent(connection, schema=schema),
        dead=await ask.dead_groups(connection, schema=schema),
        invalid=invalid,
        paused_queues=await ask.paused_queues(connection, schema=schema),
        schedules=schedules,
        blocking=await blocking_sessions(connection, schema=schema),
        lanes=await ask.lane_runs(connection, chosen, since, schema=schema),
    )


def node_state(row: dict[str, Any]) -> str:
    """alive, cordoned, draining, silent (its lease ran out), gone (left in order) or died."""
    if row["state"] == "dead":
        return "died" if "lease" in (row["ended_because"] or "") else "gone"
    if row["lease_left"] <= 0:
        return "silent"
    return str(row["state"])


def _view(
    page_request: PageRequest, facts: Facts, now: datetime, window: str, is_all: bool
) -> OverviewView:
    judged = [(row, judge(row, now)) for row in facts.schedules]
    nodes = tuple(_node_line(page_request, row) for row in facts.nodes)
    attention = causes(page_request, facts, judged, nodes)
    shown = shortlist(attention, _ALL_ATTENTION_ROWS if is_all else _ATTENTION_ROWS)
    all_href = page_request.link("overview", {"window": window, "attention": ALL}) + "#attention"
    recent = facts.recent
    ended = recent.get("ended_in_a_minute") or 0
    return OverviewView(
        tiles=tiles(page_request, facts, judged, nodes, now),
        attention=tuple(shown),
        more_attention=len(attention) - len(shown),
        all_attention_href=None if is_all else all_href,
        dead_letters=facts.cluster["dead_letters"],
        problems=len(attention),
        timeline=_timeline(page_request, facts, judged, now, WINDOWS[window]),
        schedules=facts.cluster["schedules"],
        windows=[(word, word == window) for word in WINDOWS],
        queues=_queue_lines(page_request, facts),
        nodes=nodes[:_NODES],
        last_finished_at=recent.get("last_finished_at"),
        rate=ended / 60 if ended else None,
        is_empty=not facts.cluster["schedules"]
        and not facts.nodes
        and not recent.get("runs")
        and not facts.blocking,
    )


def _is_young(facts: Facts, now: datetime) -> bool:
    """Whether the past of the schedules, and what was read of their runs, fits `FIRST_WINDOW`."""
    begin = now - WINDOWS[FIRST_WINDOW] * 2 / 3
    return all(row["created_at"] > begin for row in facts.schedules) and all(
        run["finished_at"] > begin for run in facts.lanes
    )


def _for_lanes(judged: _Judged, now: datetime) -> _Judged:
    """The problem ones first, then by next fire."""

    def rank(line: tuple[dict[str, Any], Health]) -> tuple[bool, bool, datetime]:
        row, health = line
        return (not health.is_problem, row["next_fire"] is None, row["next_fire"] or now)

    return sorted(judged, key=rank)[:LANES]


def _timeline(
    page_request: PageRequest, facts: Facts, judged: _Judged, now: datetime, length: timedelta
) -> Timeline | None:
    rows = _for_lanes(judged, now)
    if not rows:
        return None
    until = now + length / 3
    by_schedule: dict[int, list[dict[str, Any]]] = {}
    for run in facts.lanes:
        by_schedule.setdefault(run["schedule_id"], []).append(run)
    for run in facts.running:
        if run["schedule_id"] is not None:
            by_schedule.setdefault(run["schedule_id"], []).append(
                {
                    "id": run["id"],
                    "outcome": "running",
                    "started_at": run["since"],
                    "finished_at": None,
                }
            )
    lanes = [
        {
            "name": row["name"],
            "health": health.word,
            "runs": by_schedule.get(row["id"], []),
            "fires": future_fires(row, now, until, distance(now - length * 2 / 3, until)),
        }
        for row, health in rows
    ]
    return timeline(lanes, now - length * 2 / 3, now, until, page_request.zone)


def future_fires(
    row: dict[str, Any], now: datetime, until: datetime, distance: timedelta
) -> list[datetime]:
    """Fires of an enabled, readable schedule up to `until`, each `distance` after the one before.

    So a schedule that fires every second costs no more than one that fires every hour.
    """
    if not row["enabled"] or row["status"] == "invalid":
        return []
    try:
        spec = spec_of(row)
    except PgcronError:
        return []
    fires: list[datetime] = []
    fire = spec.next(now)
    while fire is not None and fire <= until:
        fires.append(fire)
        fire = spec.next(fire + distance)
    return fires


def _node_line(page_request: PageRequest, row: dict[str, Any]) -> NodeLine:
    state = node_state(row)
    by = ": ".join(filter(None, [row["cordoned_by"], row["cordon_reason"]]))
    return NodeLine(
        name=row["name"],
        state=state,
        lease_left=max(0.0, row["lease_left"]) if row["state"] != "dead" else None,
        lease_ttl=row["lease_ttl"],
        slots=row["slots"],
        slots_used=row["slots_used"],
        reason=by if row["cordoned_at"] else row["ended_because"],
        ended_at=row["lease_until"] if state == "silent" else row["ended_at"],
        href=page_request.link("node", incarnation=row["incarnation"]),
        cordoned_at=row["cordoned_at"],
        unresponsive_runs=row["unresponsive_runs"],
        health=read_health(row),
    )


def _queue_lines(page_request: PageRequest, facts: Facts) -> tuple[QueueLine, ...]:
    names = dict.fromkeys(
        [
            *(row["name"] for row in facts.paused_queues),
            *(row["queue"] for row in facts.due),
            *(row["queue"] for row in facts.running),
        ]
    )
    paused = {row["name"]: row for row in facts.paused_queues}
    lines = []
    for name in names:
        due = [row for row in facts.due if row["queue"] == name]
        pause = paused.get(name)
        lines.append(
            QueueLine(
                name=name,
                due=sum(row["runs"] for row in due),
                oldest_due=min((row["oldest_due"] for row in due), default=None),
                running=sum(row["queue"] == name for row in facts.running),
                is_cut=sum(row["runs"] for row in due) >= ask.LOOK,
                paused=None
                if pause is None
                else ": ".join(filter(None, [pause["paused_by"], pause["paused_note"]])),
                href=page_request.link("queue", name=name),
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.oldest_due is None, line.oldest_due)))[
        :_QUEUES
    ]
