"""``/queues``: is work flowing, and what blocks it; pausing and resuming a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import queues as queue_interfaces
from pgcron_ha.db.commands.retention import retention, scope_words
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import breakers as ask_breakers
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import queues as ask
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.errors import NotFound
from pgcron_ha.web.address import near_names
from pgcron_ha.web.cluster_contexts import (
    Broken,
    HeadRun,
    Kept,
    Parked,
    QueueRow,
    QueuesView,
    QueueView,
)
from pgcron_ha.web.formats import Mark, duration, number, plural, short
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.breakers import circuit_sentence
from pgcron_ha.web.run_words import needs, too_heavy

# The oldest due run of a served queue waits longer than this: work comes faster than it goes.
LAG_SECONDS: Final = 60.0
_MOST_KEPT: Final = 100
# The gravest first; the rest by name.
_GRAVITY: Final = {"fail": 0, "late": 1}


class NoSuchQueue(NotFound):
    """A queue that nothing names, with those that may have been meant."""

    def __init__(self, name: str, near: list[tuple[str, str]]) -> None:
        super().__init__(
            f"queue '{name[:200]}' does not exist",
            "A queue exists as soon as a run, a schedule, a node or a pause names it.",
            "Look for it in the list of queues.",
        )
        self.near = near


@dataclass(frozen=True)
class Facts:
    """What was read of all queues: rows as `pgcron_ha.db.queries.pages.queues` documents them."""

    cluster: dict[str, Any]
    settings: list[dict[str, Any]]
    depths: list[dict[str, Any]]
    running: list[dict[str, Any]]
    parked: list[dict[str, Any]]
    broken: list[dict[str, Any]]
    servers: list[dict[str, Any]]
    dead: list[dict[str, Any]]
    scheduled: list[str]
    """Queues that schedules name."""


@dataclass(frozen=True)
class Detail:
    """What was read of one queue."""

    head: list[dict[str, Any]]
    later: list[dict[str, Any]]
    running: list[dict[str, Any]]


async def show_queues(page_request: PageRequest) -> Response:
    """The list, what is wrong first."""
    page_request.query()
    snapshot = await page_request.read(
        ("queues",), lambda connection: _read_queues(connection, page_request.schema)
    )
    facts, kept = snapshot.value
    rows = _rows(page_request, facts, snapshot.now)
    view = QueuesView(
        rows=tuple(rows), cluster_pause=_cluster_pause(facts), kept=tuple(map(_kept, kept))
    )
    return page_request.page("queues.html", view, snapshot, title="Queues", section="queues")


async def show_queue(page_request: PageRequest) -> Response:
    """One queue: what is next, and why each of it is not taken."""
    name = page_request.segment("name")
    page_request.query()
    snapshot = await page_request.read(
        ("queue", name), lambda connection: _read_queue(connection, page_request.schema, name)
    )
    facts, detail = snapshot.value
    rows = {row.name: row for row in _rows(page_request, facts, snapshot.now)}
    if name not in rows:
        near = near_names(name[:100], sorted(rows))
        raise NoSuchQueue(name, [(other, page_request.link("queue", name=other)) for other in near])
    row = rows[name]
    paused = _cluster_pause(facts)
    view = QueueView(
        row=row,
        head=tuple(
            _head_run(run, row, snapshot.now, is_all_paused=paused is not None)
            for run in detail.head
        ),
        later=detail.later,
        running=detail.running,
        cluster_pause=paused,
    )
    return page_request.page("queue.html", view, snapshot, title=name, section="queues")


async def pause(page_request: PageRequest) -> Response:
    """Nobody takes runs from the queue from now on; ``note`` says why."""
    name = page_request.segment("name")
    note = (await page_request.form("note")).get("note")
    await page_request.act(
        lambda connection: queue_interfaces.pause_queue(
            connection, name, note, actor=page_request.actor, schema=page_request.schema
        )
    )
    return page_request.redirect("queue", {"done": "queue_paused"}, name=name)


async def resume(page_request: PageRequest) -> Response:
    """Its runs are taken again."""
    name = page_request.segment("name")
    await page_request.form()
    await page_request.act(
        lambda connection: queue_interfaces.resume_queue(
            connection, name, actor=page_request.actor, schema=page_request.schema
        )
    )
    return page_request.redirect("queue", {"done": "queue_resumed"}, name=name)


async def read_facts(connection: Connection, schema: str) -> Facts:
    """What the list shows, in one transaction."""
    return Facts(
        cluster=await ask_overview.cluster(connection, schema=schema),
        settings=await ask.settings(connection, schema=schema),
        depths=await ask.depths(connection, schema=schema),
        running=await ask.running(connection, schema=schema),
        parked=await ask_overview.parked(connection, schema=schema),
        broken=await ask_breakers.broken(connection, schema=schema),
        servers=await ask.servers(connection, schema=schema),
        dead=await ask.dead(connection, schema=schema),
        scheduled=await ask_schedules.queue_names(connection, schema=schema),
    )


async def _read_queues(connection: Connection, schema: str) -> tuple[Facts, list[dict[str, Any]]]:
    facts = await read_facts(connection, schema)
    return facts, await retention(connection, limit=_MOST_KEPT, schema=schema)


async def _read_queue(connection: Connection, schema: str, name: str) -> tuple[Facts, Detail]:
    facts = await read_facts(connection, schema)
    return facts, Detail(
        await ask.head(connection, name, is_due=True, schema=schema),
        await ask.head(connection, name, is_due=False, schema=schema),
        await ask.runs(connection, name, schema=schema),
    )


def _kept(row: dict[str, Any]) -> Kept:
    """A row of `pgcron_ha.db.commands.retention.retention`."""
    note = None if row["set_by"] is None else f"set by {row['set_by']}"
    if row["in_force"] < row["keep"]:
        note = f"all of history is kept for {duration(row['in_force'].total_seconds())} only"
    return Kept(scope_words(row), duration(row["keep"].total_seconds()), note)


def _rows(page_request: PageRequest, facts: Facts, now: datetime) -> list[QueueRow]:
    names = {
        *(row["name"] for row in facts.settings),
        *(row["queue"] for row in [*facts.depths, *facts.running, *facts.parked, *facts.servers]),
        *(row["queue"] for row in facts.broken),
        *(row["queue"] for row in facts.dead),
        *facts.scheduled,
    }
    rows = [_row(page_request, facts, name, now) for name in sorted(names)]
    return sorted(rows, key=lambda row: _GRAVITY.get(row.mark.tone, 2))


def _row(page_request: PageRequest, facts: Facts, name: str, now: datetime) -> QueueRow:
    pause = _one(facts.settings, "name", name)
    depth = _one(facts.depths, "queue", name)
    server = _one(facts.servers, "queue", name)
    first = depth.get("first_due")
    parked = tuple(
        Parked(
            " with ".join([row["handler"], *filter(None, [", ".join(row["requires"] or ())])]),
            row["runs"],
            row["oldest_due"],
            page_request.link("nodes", {"handler": row["handler"]}),
        )
        for row in facts.parked
        if row["queue"] == name
    )
    oldest_due = first if first is not None and first <= now else None
    running = _one(facts.running, "queue", name).get("runs", 0)
    broken = tuple(
        Broken(
            row["handler"],
            row["runs"],
            row["oldest_due"],
            circuit_sentence(row, now),
            page_request.link("reset_breaker", name=row["name"]),
        )
        for row in facts.broken
        if row["queue"] == name
    )
    mark, why = _judge(pause, depth, server, parked, oldest_due, now)
    if broken and mark.word not in ("paused", "unserved", "parked"):
        mark, why = Mark("⊘", "left alone", "late"), broken[0].why
    if mark.word in ("lagging", "flowing") and running >= (pause.get("max_running") or running + 1):
        mark, why = (
            Mark("▮", "full", mark.tone),
            f"It executes {plural(running, 'run')}, as many as it may.",
        )
    elif mark.word in ("lagging", "flowing") and pause.get("next_at") is not None:
        left = _left(pause["next_at"], now)
        mark, why = (
            Mark("▮", "at its rate", mark.tone),
            f"As many have started as may, {_rate(pause)}; the next starts in {left}.",
        )
    return QueueRow(
        name=name,
        href=page_request.link("queue", name=name),
        mark=mark,
        why=why,
        due=depth.get("due", 0),
        later=depth.get("later", 0),
        is_cut=depth.get("is_cut", False),
        oldest_due=oldest_due,
        running=running,
        parked=parked,
        broken=broken,
        nodes=server.get("nodes", 0),
        slots=server.get("slots", 0),
        free_slots=server.get("free", 0),
        dead=_one(facts.dead, "queue", name).get("letters", 0),
        is_paused=pause.get("paused_at") is not None,
        paused_at=pause.get("paused_at"),
        paused_note=pause.get("paused_note"),
        max_running=pause.get("max_running"),
        rate=_rate(pause),
        set_by=pause.get("set_by"),
        next_at=pause.get("next_at"),
    )


def _rate(settings: dict[str, Any]) -> str | None:
    if settings.get("rate") is None:
        return None
    return f"{number(settings['rate'])} in {duration(settings['per'])}"


def _left(instant: datetime, now: datetime) -> str:
    return duration(max(0.0, (instant - now).total_seconds()))


def _judge(
    pause: dict[str, Any],
    depth: dict[str, Any],
    server: dict[str, Any],
    parked: tuple[Parked, ...],
    oldest_due: datetime | None,
    now: datetime,
) -> tuple[Mark, str]:
    """The word of a queue and the sentence behind it, the gravest that holds."""
    due = depth.get("due", 0)
    lag = (now - oldest_due).total_seconds() if oldest_due else 0.0
    if pause.get("paused_at") is not None:
        wait = f"{plural(due, 'due run waits', 'due runs wait')}" if due else "nothing waits for it"
        by = ": ".join(filter(None, [pause["paused_by"], short(pause["paused_note"] or "")]))
        return Mark("‖", "paused", "late" if due else "idle"), f"Paused by {by}; {wait}."
    if not server and (due or parked):
        return Mark("✕", "unserved", "fail"), "No living node takes from it: start one that does."
    if parked:
        handlers = ", ".join(group.handler for group in parked[:2])
        more = f" and {len(parked) - 2} more" if len(parked) > 2 else ""
        return Mark("⊘", "parked", "late"), f"No living node offers {handlers}{more} here."
    if lag > LAG_SECONDS:
        free = server.get("free", 0)
        busy = "every slot is busy" if not free else f"{plural(free, 'slot')} free"
        return Mark("▲", "lagging", "late"), f"The oldest waits for {duration(lag)}; {busy}."
    if not server:
        return Mark("○", "unserved", "idle"), "No living node takes from it; nothing waits."
    if due:
        return Mark("▶", "flowing", "ok"), "What is due is taken."
    return Mark("✓", "ready", "ok"), "Nothing that is due waits."


def _head_run(run: dict[str, Any], row: QueueRow, now: datetime, *, is_all_paused: bool) -> HeadRun:
    """What stands between a due run and a node."""
    if is_all_paused:
        return HeadRun(run, "everything is paused", "late", None)
    if row.is_paused:
        return HeadRun(run, "the queue is paused", "late", None)
    if not run["is_offered"]:
        return HeadRun(run, f"{needs(run)}no living node offers its handler here", "late", None)
    if run["too_heavy"]:
        return HeadRun(run, f"{too_heavy(run, run['too_heavy'])} has so many", "late", None)
    if run["waits_for"] is not None:
        return HeadRun(run, "its schedule's last run is not over", "idle", run["waits_for"])
    lane = short(run["lane"] or "", 60)
    if run["is_lane_full"]:
        return HeadRun(run, f"every slot of its lane {lane} is taken", "idle", None)
    if run["lane_next_at"] is not None:
        left = _left(run["lane_next_at"], now)
        why = f"the rate of its lane {lane} is used up; the next starts in {left}"
        return HeadRun(run, why, "idle", None)
    if row.max_running is not None and row.running >= row.max_running:
        return HeadRun(
            run, f"the queue executes {plural(row.running, 'run')} already", "idle", None
        )
    if row.next_at is not None:
        left = _left(row.next_at, now)
        return HeadRun(run, f"the queue's rate is used up; the next starts in {left}", "idle", None)
    if not row.free_slots:
        return HeadRun(run, f"all {row.slots} slots are busy", "idle", None)
    return HeadRun(run, "a node takes it at its next look", "idle", None)


def _cluster_pause(facts: Facts) -> str | None:
    cluster = facts.cluster
    if cluster["paused_at"] is None:
        return None
    by = ": ".join(filter(None, [cluster["paused_by"], cluster["paused_note"]]))
    return by or "nobody said why"


def _one(rows: list[dict[str, Any]], key: str, value: str) -> dict[str, Any]:
    return next((row for row in rows if row[key] == value), {})
