"""``/nodes``: who is alive and for how long, who holds what, who is dead and why; ``/queues``: is
work flowing, and what blocks it; pausing and resuming a queue; ``/storage``: how large the tables
are, and how fast they grow.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import cluster
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import health
from pgcron_ha.db.queries.node_health import node_row
from pgcron_ha.db.queries.pages import nodes as ask_nodes
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import queues as ask_queues
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import duration, number, plain
from pgcron_ha.model.health import circuit_sentence, judge_queue, pause_of, put_aside
from pgcron_ha.web.address import NoSuch, choice
from pgcron_ha.web.page_request import Ask, PageRequest, together
from pgcron_ha.web.verbs import verb

NODE_STATES: Final = ("alive", "cordoned", "draining", "silent", "dead")
_NODE_FILTERS: Final[tuple[str, ...]] = ("state", "queue", "handler")

_LIVING_AND_DEAD: Final = together(
    partial(ask_nodes.nodes, is_dead=False, limit=ask_nodes.MOST_NODES),
    partial(ask_nodes.nodes, is_dead=True, limit=ask_nodes.MOST_DEAD),
)

# Sizes change slowly, and each costs the server some calls of its file system.
_SIZES_SECONDS: Final = 20.0
# The others are small as a rule, and are folded.
_TABLES_SHOWN: Final = 12
_OF_TABLES: Final = together(health.tables, health.snapshot_holders, health.role)

# The gravest first; the rest by name.
_GRAVITY: Final = {"fail": 0, "late": 1}
# What a queue has when no statement has a row of it.
_NOTHING: Final = {
    **dict.fromkeys(("due", "later", "nodes", "slots", "free"), 0),
    **dict.fromkeys(("paused_at", "paused_by", "paused_note", "max_running", "set_by", "next_at")),
    **dict.fromkeys(("rate", "per", "first_due")),
    "is_cut": False,
}
# What is read of all queues; `scheduled` are those that schedules name.
_READ: Final[dict[str, Ask[Any]]] = {
    "cluster": ask_overview.cluster,
    "settings": ask_queues.settings,
    "depths": ask_queues.depths,
    "running": ask_queues.running,
    "waiting": partial(ask_overview.waiting, look=0),
    "broken": ask_queues.broken,
    "servers": ask_queues.servers,
    "dead": ask_queues.dead,
    "producers": ask_queues.producers,
    "scheduled": ask_schedules.queue_names,
}


async def show_nodes(page_request: PageRequest) -> Response:
    """The list; ``?queue=`` and ``handler`` choose those that serve it, ``state`` by their word."""
    given = page_request.query(*_NODE_FILTERS)
    choice(given.get("state"), NODE_STATES, "state")
    chosen: dict[str, Any] = {name: given.get(name) for name in ("queue", "handler")}
    snapshot = await page_request.read("nodes", _LIVING_AND_DEAD, **chosen)
    (living, dead), state = snapshot.value, given.get("state")
    versions = Counter(row["version"] for row in living)
    rows = [node_row(row, snapshot.now) for row in living]
    shown = [row for row in rows if state in (None, row["word"])]
    alive = [row for row in shown if row["word"] == "alive"]
    return page_request.page(
        "nodes.html",
        snapshot,
        title="Nodes",
        living=shown,
        dead=[node_row(row, snapshot.now) for row in dead],
        slots=sum(row["slots"] for row in alive),
        free_slots=sum(max(0, row["slots"] - row["slots_used"]) for row in alive),
        versions=sorted(versions),  # more than one: the cluster is mixed
        usual_version=versions.most_common(1)[0][0] if versions else None,
        chips=page_request.chips("nodes", given, but="state"),
        states=page_request.choices("nodes", "state", (None, *NODE_STATES), given),
        is_cut=len(living) >= ask_nodes.MOST_NODES,
        dead_is_cut=len(dead) >= ask_nodes.MOST_DEAD,
        shows_living=state != "dead",
        shows_dead=state in (None, "dead"),
    )


async def show_node(page_request: PageRequest) -> Response:
    """One incarnation: its lease, what it holds, what it offers."""
    given = page_request.segments["incarnation"]
    page_request.query()
    snapshot = await page_request.gather("node", _read_node, given)
    node, runs = snapshot.value
    return page_request.page(
        "node.html",
        snapshot,
        title=plain(node["name"]),
        row=node_row(node, snapshot.now),
        runs=runs,  # what it executes or holds ahead
    )


async def _cordon(connection: Any, given: str, *, schema: str, **more: Any) -> None:
    node, _ = await _read_node(Session(connection, schema), given)
    await cluster.cordon_node(connection, node["name"], schema=schema, **more)


async def _uncordon(connection: Any, given: str, *, schema: str, **more: Any) -> None:
    node, _ = await _read_node(Session(connection, schema), given)
    held = node["incarnation" if node["is_cordoned_alone"] else "name"]
    await cluster.uncordon_node(connection, held, schema=schema, **more)


# Every process of its name takes nothing new until it is uncordoned; ``note`` is kept.
cordon = verb(_cordon, "node", "cordoned", "note")
# It takes runs again, whether its name or this process alone was cordoned.
uncordon = verb(_uncordon, "node", "uncordoned")


async def _read_node(session: Session, given: str) -> tuple[Row, list[Row]]:
    """The node and its runs. NotFound."""
    node = await session.call(ask_nodes.node, incarnation=given)
    if not node:
        rule = (
            "A page of a node is named by its incarnation: each start of a process is another."
            " Those that died are forgotten after a day."
        )
        raise NoSuch("node", given, rule)
    held = {"incarnation": node["incarnation"], "limit": ask_nodes.SHOWN_RUNS}
    return node, await session.call(ask_overview.running, **held)


async def show_queues(page_request: PageRequest) -> Response:
    """The list, what is wrong first."""
    page_request.query()
    snapshot = await page_request.gather("queues", _read_queues)
    facts = snapshot.value
    return page_request.page(
        "queues.html",
        snapshot,
        title="Queues",
        rows=_rows(facts, snapshot.now),
        producers=facts.producers,
        cluster_pause=pause_of(facts.cluster),
    )


async def show_queue(page_request: PageRequest) -> Response:
    """One queue: what is next, and why each of it is not taken."""
    name = page_request.segments["name"]
    page_request.query()
    snapshot = await page_request.gather("queue", _read_queues, name)
    facts = snapshot.value
    rows = {row["name"]: row for row in _rows(facts, snapshot.now)}
    if name not in rows:
        rule = "A queue exists as soon as a run, a schedule, a node or a pause names it."
        raise NoSuch("queue", name, rule, page_request.near("queue", name, sorted(rows)))
    return page_request.page(
        "queue.html",
        snapshot,
        title=name,
        row=rows[name],
        head=[_head_run(run, rows[name]) for run in facts.head],
        cluster_pause=pause_of(facts.cluster),
    )


pause = verb(cluster.pause_queue, "queue", "queue_paused", "note")
resume = verb(cluster.resume_queue, "queue", "queue_resumed")
reset_breaker = verb(cluster.reset_breaker, "overview", "breaker_reset")


async def _read_queues(session: Session, queue: str | None = None) -> SimpleNamespace:
    """The rows of each statement of `_READ`, by its name; the `names` of the queues; the `head` of
    one of them: what is due first.
    """
    facts = SimpleNamespace(**{name: await session.call(query) for name, query in _READ.items()})
    read = [*facts.depths, *facts.running, *facts.waiting, *facts.servers, *facts.broken]
    names = {
        *(row["name"] for row in facts.settings),
        *(row["queue"] for row in [*read, *facts.dead]),
        *facts.scheduled,
    }
    facts.names = await session.call(ask_queues.within, queues=sorted(names))
    facts.head = () if queue is None else await session.call(ask_queues.head, queue=queue)
    return facts


def _rows(facts: SimpleNamespace, now: datetime) -> list[Row]:
    rows = [_row(facts, name, now) for name in sorted(facts.names)]
    return sorted(rows, key=lambda row: _GRAVITY.get(row["judged"][0].tone, 2))


def _row(facts: SimpleNamespace, name: str, now: datetime) -> Row:
    """One queue: what was read of it (``due`` and ``later`` are lower bounds if it ``is_cut``);
    what is ``blocked``, since no living node can take it, or ``broken``, by a circuit breaker, both
    by handler; the word and the sentence that is ``judged`` of it.
    """

    def of_it(rows: list[Row], key: str = "queue") -> list[Row]:
        return [row for row in rows if row[key] == name]

    row: Row = {**_NOTHING, "name": name}
    for read in (*of_it(facts.depths), *of_it(facts.settings, "name"), *of_it(facts.servers)):
        row |= read
    first, blocked = row["first_due"], of_it(put_aside(facts.waiting))
    broken = [{**each, "why": circuit_sentence(each)} for each in of_it(facts.broken)]
    row |= {
        "oldest_due": first if first is not None and first <= now else None,
        "running": sum(each["runs"] for each in of_it(facts.running)),
        "dead": sum(each["letters"] for each in of_it(facts.dead)),
        "blocked": blocked,
        "broken": broken,
        "blocked_runs": sum(group["at_gates"] for group in of_it(facts.waiting)),
        # How many start in a time, such as ``10 in 1 m``; None is no limit.
        "starts": row["rate"] and f"{number(row['rate'])} in {duration(row['per'])}",
    }
    return {**row, "judged": judge_queue(row, now)}


def _head_run(run: Row, row: Row) -> Row:
    """A due run: ``why`` no node has it, and if it ``is_held``, so does not go on by itself."""
    is_free = run["waits_for"] == "slots" and row["free"]
    why = "a node takes it at its next look" if is_free else run["waits_detail"]
    return {**run, "why": why, "is_held": run["waits_for"] in ("paused", "no_node", "weight")}


async def show_storage(page_request: PageRequest) -> Response:
    """All tables, the largest first, and who keeps dead rows in them."""
    page_request.query()
    snapshot = await page_request.read("storage", _OF_TABLES, life=_SIZES_SECONDS)
    tables, holders, reader = snapshot.value
    return page_request.page(
        "storage.html",
        snapshot,
        title="Storage",
        rows=tables[:_TABLES_SHOWN],
        small=tables[_TABLES_SHOWN:],
        total=sum(table["total"] for table in tables),
        growth=sum(table["a_day"] or 0 for table in tables),
        largest=max([1, *(table["total"] for table in tables)]),  # for bars: never zero
        holders=holders,
        sees_all=reader["sees_all"],
    )
